"""From what a user writes for a model to a folder in the cache: a name, an address, an archive.

    $ELMO_CACHE/models/NAME/model/       the files of a model, complete or not there at all
    $ELMO_CACHE/models/NAME/source.json  where they came from, and their checksums
    $ELMO_CACHE/models/checksums.json    the SHA-256 of every download at its first use
    $ELMO_CACHE/models/downloads/        what is not whole yet

Hardly any publisher states a checksum, and none SHA-256. So the first download is trusted, and what
it gave is what every later one must give, from whichever mirror. Files in the cache are compared
with their checksums again whenever their size or date has changed.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
import shutil
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, cast
from urllib.parse import quote, unquote, urlsplit

from elmo.config import Json
from elmo.errors import UserError
from elmo.files import (
    atomic_folder,
    cache_folder,
    locked,
    read_json,
    remove_leftovers,
    sha256,
    write_json,
)
from elmo.registry.archives import PICKLES, SUFFIXES, TAKEN, is_archive, unpack
from elmo.registry.catalogue import ARCHIVE, PublicModel, find_model
from elmo.registry.download import download, read_address

log = logging.getLogger(__name__)

MODEL, SOURCE, CHECKSUMS = "model", "source.json", "checksums.json"
OFFLINE = ("ELMO_OFFLINE", "HF_HUB_OFFLINE")
LARGEST_DOWNLOAD, LARGEST_TEXT = 8 << 30, 1 << 20
HUB = re.compile(r"hf:(?P<repo>[\w.-]+/[\w.-]+)(?:@(?P<revision>[\w./-]+))?", re.ASCII)
WEB = ("https://", "http://")

Convert = Callable[[Path], Path]
"""Gives the folder that holds a model in a format without pickles, maybe the same."""


class File(NamedTuple):
    """A file to download."""

    name: str
    addresses: tuple[str, ...]
    checksums: Mapping[str, str]
    """Published checksums."""


class Source(NamedTuple):
    """What a user has named."""

    name: str
    """Its name in messages and in checksums.json."""
    slug: str
    """Its folder in the cache."""
    files: tuple[File, ...]
    advice: str = ""
    """What to do if no address works."""
    known: Json | None = None
    """Further content of source.json."""


def models_folder() -> Path:
    """Where downloaded models are."""
    return cache_folder() / "models"


def fetch(name: str, convert: Convert, *, fresh: bool = False, forget: bool = False) -> Path | None:
    """The folder of a model that is named by anything but a folder.

    Args:
        name: A name that `elmo models` lists, hf:USER/REPO@REVISION, an address or an archive.
        convert: Called once with the downloaded folder.
        fresh: Download again what is in the cache.
        forget: Trust what comes now, whatever was recorded at first use.

    Returns:
        The folder in the cache, or None if this is no name of anything.
    """
    if is_archive(name) and Path(name).is_file():
        archive = Path(name)
        slug = f"file--{sha256(archive)[:32]}"
        return _cached(slug, fresh) or _fill(
            slug, convert, fresh, lambda folder: _unpack_here(archive, folder), {"name": name}
        )
    if name.startswith("hf:"):
        matched = HUB.fullmatch(name)
        if matched is None:
            raise UserError(f"{name:.200}: expected hf:USER/REPO or hf:USER/REPO@REVISION")
        slug = "hf--" + name.removeprefix("hf:").replace("/", "--")
        model = None
    elif name.startswith(WEB):
        try:
            path = urlsplit(name).path
        except ValueError as error:
            raise UserError(f"{name:.200}: expected an address ({error})") from None
        if not is_archive(path):
            raise UserError(
                f"{name:.200}: expected the address of an archive ({', '.join(SUFFIXES)}); the two "
                "files of an official model go to LanguageModel.from_official(options, weights)"
            )
        slug = f"web--{hashlib.sha256(name.encode()).hexdigest()[:32]}"
        matched = model = None
    else:
        matched, model = None, find_model(name)
        if model is None:
            return None
        slug = model.name.replace("/", "--")
    if path := _cached(slug, fresh):
        return path
    _require_online(name)
    if model is not None:
        source = _public(model, slug)
    elif matched is not None:
        source = _hub(name, slug, matched["repo"], matched["revision"] or "main")
    else:
        source = Source(name, slug, (File(ARCHIVE, (name,), {}),))
    known = {"name": source.name, **(source.known or {})}
    return _fill(slug, convert, fresh, lambda folder: _download(source, folder, forget), known)


def fetch_file(address: str) -> Path:
    """One file of the web in the cache, such as the options.json of an official model."""
    slug = f"web--{hashlib.sha256(address.encode()).hexdigest()[:32]}"
    base = re.sub(r"[^\w.-]", "_", unquote(urlsplit(address).path).rpartition("/")[2]) or "file"
    folder = _cached(slug, fresh=False)
    if folder is None:
        _require_online(address)
        source = Source(address, slug, (File(base, (address,), {}),))
        folder = _fill(
            slug, lambda it: it, False, lambda it: _download(source, it, False), {"name": address}
        )
    return folder / base


def is_here(model: PublicModel) -> bool:
    """Whether a public model is in the cache."""
    return (models_folder() / model.name.replace("/", "--") / SOURCE).is_file()


# The cache


def _cached(slug: str, fresh: bool) -> Path | None:
    """A model in the cache, if its files are what they were; None if it is not there."""
    entry = models_folder() / slug
    if fresh or not (entry / SOURCE).is_file():
        return None
    source = read_json(entry / SOURCE)
    for name, recorded in cast("dict[str, Json]", source["files"]).items():
        path = entry / MODEL / name
        same = path.is_file() and path.stat().st_size == recorded["size"]
        if same and path.stat().st_mtime_ns != recorded["mtime_ns"]:
            same = sha256(path) == recorded["sha256"]
        if not same:
            raise UserError(
                f"{path}: not the file that was downloaded (sha256 {recorded['sha256']}); delete "
                f"{entry}, and it is downloaded again"
            )
    return entry / MODEL


def _fill(
    slug: str,
    convert: Convert,
    fresh: bool,
    fill: Callable[[Path], Json],
    known: Json,
) -> Path:
    """Make an entry of the cache, unless another process has made it meanwhile."""
    entry = models_folder() / slug
    busy = f"{known['name']}: another process is downloading it; waiting"
    with locked(entry.with_name(f"{slug}.lock"), busy, wait=True):
        if path := _cached(slug, fresh):
            return path
        remove_leftovers(models_folder(), slug)
        with atomic_folder(entry) as temporary:
            files = temporary / MODEL
            files.mkdir()
            downloads = fill(files)
            converted = convert(files)
            if converted != files:
                moved = converted.replace(temporary / "converted")
                shutil.rmtree(files)
                moved.replace(files)
            recorded = {
                path.relative_to(files).as_posix(): {
                    "size": path.stat().st_size,
                    "mtime_ns": path.stat().st_mtime_ns,
                    "sha256": sha256(path),
                }
                for path in sorted(files.rglob("*"))
                if path.is_file()
            }
            write_json(temporary / SOURCE, {**known, "downloads": downloads, "files": recorded})
        _record(known["name"], downloads)
        log.info("%s: in %s", known["name"], entry)
    return entry / MODEL


def _unpack_here(archive: Path, folder: Path) -> Json:
    unpack(archive, folder)
    return {}


def _download(source: Source, folder: Path, forget: bool) -> Json:
    """Download all files of a model into a folder; an archive is unpacked there."""
    downloads = models_folder() / "downloads"
    downloads.mkdir(parents=True, exist_ok=True)
    told: Json = {}
    for file in source.files:
        if not file.addresses:
            raise UserError(
                f"{source.name}: has no address that a program can download from. {source.advice}"
            )
        first_use = {} if forget else _recorded(_key(source.name, file.name))
        target = downloads / f"{source.slug}--{file.name.replace('/', '--')}"
        address, digest = download(
            file.addresses,
            target,
            limit=LARGEST_TEXT if file.name.endswith(".json") else LARGEST_DOWNLOAD,
            checksums={**first_use, **file.checksums},
            what=f"{source.name} ({file.name})" if len(source.files) > 1 else source.name,
            advice=source.advice
            + (
                f" The sha256 was recorded at first use, in {models_folder() / CHECKSUMS}: if a "
                "new version is what you want, elmo download --forget takes it."
                if first_use
                else ""
            ),
        )
        told[file.name] = {"address": address, "sha256": digest}
        if file.name == ARCHIVE:
            try:
                unpack(target, folder)
            except UserError as error:
                raise UserError(f"{source.name}, from {address}: {error}") from None
            finally:
                target.unlink()
        else:
            _require_plausible(target, address)
            (folder / file.name).parent.mkdir(parents=True, exist_ok=True)
            target.replace(folder / file.name)
    return told


def _require_plausible(path: Path, address: str) -> None:
    """Refuse an error that came as a file, before its checksum is taken for that of a model."""
    try:
        if path.name.endswith(".json"):
            read_json(path, LARGEST_TEXT)
        elif path.name.endswith(".hdf5"):
            with path.open("rb") as stream:
                if stream.read(4) != b"\x89HDF":
                    raise UserError("not an HDF5 file")
    except UserError as error:
        path.unlink()
        raise UserError(f"{address}: gives another file than expected ({error})") from None


def _key(name: str, file: str) -> str:
    """Under which a download is recorded: that of a model, or of a single file by its address."""
    return name if name.endswith(f"/{file}") else f"{name} {file}"


def _recorded(key: str) -> dict[str, str]:
    """The checksum that a download had at its first use, if there was one."""
    path = models_folder() / CHECKSUMS
    if not path.is_file():
        return {}
    entry = cast("Json", read_json(path)).get(key)
    return {} if entry is None else {"sha256": str(entry["sha256"])}


def _record(name: str, downloads: Json) -> None:
    """Record the checksums of a model's downloads, unless they are known."""
    path = models_folder() / CHECKSUMS
    with locked(path.with_name(f"{CHECKSUMS}.lock"), "waiting for the checksums", wait=True):
        known: Json = read_json(path) if path.is_file() else {}
        date = time.strftime("%Y-%m-%d", time.gmtime())
        new = {
            _key(name, file): {**entry, "date": date}
            for file, entry in downloads.items()
            if known.get(_key(name, file), {}).get("sha256") != entry["sha256"]
        }
        if new:
            write_json(path, {**known, **new})
    for key, entry in new.items():
        log.info("%s: sha256 %s is recorded, and expected from now on", key, entry["sha256"])


def _require_online(name: str) -> None:
    for variable in OFFLINE:
        if os.environ.get(variable, "").lower() in ("1", "true", "yes", "on"):
            raise UserError(
                f"{name}: not in the cache ({models_folder()}), and {variable} forbids to download "
                "it; run elmo download on a machine with a network and copy that folder, or unset "
                f"{variable}"
            )


# Sources


def _public(model: PublicModel, slug: str) -> Source:
    files = tuple(
        File(name, addresses, model.checksums.get(name, {}))
        for name, addresses in model.files.items()
    )
    listed = [*(f"page: {page}" for page in model.pages)]
    listed += [f"earlier, reported dead: {address}" for address in model.dead]
    advice = "Listed besides: " + "; ".join(listed) + "." if listed else ""
    if model.status:
        advice += f" Status as stated by others: {model.status}."
    advice += " A copy that you have goes wherever a model does, as a folder or an archive."
    if not any(addresses for addresses in model.files.values()):
        advice = f"Download it by hand. {advice}"
    known = {"format": model.format, "licence": model.licence, "language": model.language}
    return Source(model.name, slug, files, advice.strip(), known)


def _hub(name: str, slug: str, repo: str, revision: str) -> Source:
    """The files of a model on a hub of Hugging Face; HF_ENDPOINT names another one."""
    endpoint = os.environ.get("HF_ENDPOINT", "https://huggingface.co").rstrip("/")
    listing = f"{endpoint}/api/models/{repo}/revision/{quote(revision, safe='')}?blobs=true"
    try:
        answer: Any = json.loads(read_address(listing, LARGEST_TEXT << 3))
        commit = str(answer["sha"])
        lfs = {
            str(one["rfilename"]): cast("Json", one.get("lfs") or {}) for one in answer["siblings"]
        }
    except UserError as error:
        raise UserError(
            f"{name}: {error}; check the name of the repository and the revision"
        ) from None
    except (ValueError, KeyError, TypeError):
        raise UserError(f"{name}: {listing} does not answer as a hub does") from None
    if not re.fullmatch(r"[0-9a-f]{40}", commit):
        raise UserError(f"{name}: expected a commit from {listing}, got {commit!r:.60}")
    files = tuple(
        File(
            file,
            (f"{endpoint}/{repo}/resolve/{commit}/{quote(file)}",),
            {"sha256": str(stored["sha256"])} if "sha256" in stored else {},
        )
        for file, stored in lfs.items()
        if (file.endswith(TAKEN) or file in PICKLES)
        and re.fullmatch(r"(?:bilm/)?[\w.-]+", file)
        and ".." not in file
    )
    if not files:
        raise UserError(f"{name}: the repository holds no file of a model")
    # The commit is in the name: a branch that moved on is another model, not a changed one.
    return Source(f"hf:{repo}@{commit}", slug, files, known={"commit": commit})
