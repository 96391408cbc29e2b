"""Unpack a model that somebody packed: only what a model needs, nothing outside its folder.

By hand: `tarfile`'s filters and `shutil.unpack_archive` write whatever an archive holds, wherever
it nests it and however large it gets. Here nothing is written before all names and sizes have been
looked at, links and names that lead elsewhere refuse the whole archive, and bytes are counted.
"""

from __future__ import annotations

import lzma
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO, Any, NamedTuple

from elmo.errors import UserError

SUFFIXES = (".zip", ".tar", ".tar.gz", ".tgz", ".tar.xz", ".tar.bz2")
TAKEN = (".json", ".hdf5", ".dic", ".txt", ".safetensors", ".md")
PICKLES = ("encoder.pkl", "token_embedder.pkl")
"""The only pickles there are in a model, which are read as tensors and nothing else."""
INNER = "bilm"
"""The folder inside one of our classifiers."""
MOST_MEMBERS = 10_000
LARGEST_MODEL = 16 << 30
EXPANSION, ALLOWANCE = 50, 64 << 20
"""Weights hardly compress: more than 50 times its size, above 64 MB, is no model but a bomb."""

DAMAGE = (
    zipfile.BadZipFile, tarfile.TarError, zlib.error, lzma.LZMAError, EOFError, OSError,
    NotImplementedError, RuntimeError, ValueError,
)  # fmt: skip


class Member(NamedTuple):
    """A regular file in an archive."""

    path: PurePosixPath
    size: int
    """Bytes, as the archive declares them."""
    open: Callable[[], IO[bytes]]


def is_archive(name: str) -> bool:
    """Whether a file or an address is called like an archive."""
    return name.lower().endswith(SUFFIXES)


def unpack(archive: Path, folder: Path) -> None:
    """Put the files of the one model in an archive into a folder that exists."""
    limit = min(LARGEST_MODEL, EXPANSION * archive.stat().st_size + ALLOWANCE)
    try:
        with _opened(archive, limit) as members:
            root = _root(archive, members)
            inner = {root, root / INNER} if _holds(members, root, "classifier.json") else {root}
            for member in members:
                name = member.path.name
                expected = name.endswith(TAKEN) or name in PICKLES
                if not expected or member.path.parent not in inner:
                    continue
                target = folder / member.path.relative_to(root)
                target.parent.mkdir(exist_ok=True)
                limit -= _copy(member, target, limit, archive)
    except UserError:
        raise
    except DAMAGE as error:
        if isinstance(error, OSError) and error.errno is not None:  # of our disk, not of the file
            raise
        raise UserError(
            f"{archive}: damaged, or not an archive that can be read ({error}); download it again"
        ) from None


def _copy(member: Member, target: Path, limit: int, archive: Path) -> int:
    """Write a member; count its bytes, whatever the archive declares."""
    written = 0
    with member.open() as source, target.open("xb") as stream:
        while chunk := source.read(1 << 20):
            written += len(chunk)
            if written > limit:
                raise _bomb(archive)
            stream.write(chunk)
    if written != member.size:
        raise UserError(
            f"{archive}: {member.path} has {written:,} bytes, but {member.size:,} are declared; "
            "the archive is damaged, download it again"
        )
    return written


def _root(archive: Path, members: list[Member]) -> PurePosixPath:
    """The folder inside an archive that holds the model; archives nest it as they like."""
    folders = {member.path.parent for member in members}
    roots = [
        folder
        for folder in folders
        if any(_holds(members, folder, name) for name in (PICKLES[0], "classifier.json"))
        or _holds(members, folder, "model.safetensors")
        or (_holds(members, folder, ".hdf5") and _holds(members, folder, "options.json"))
    ]
    roots = [root for root in roots if root.name != INNER or root.parent not in roots]
    if len(roots) == 1:
        return roots[0]
    names = ", ".join(sorted(str(member.path) for member in members)[:8]) or "nothing"
    what = "several models" if roots else "no model"
    raise UserError(
        f"{archive}: holds {what}, but one was expected (options.json and one .hdf5 file, an "
        f"ELMoForManyLangs folder or one of ours); it holds {names:.300}"
    )


def _holds(members: list[Member], folder: PurePosixPath, ending: str) -> bool:
    return any(
        member.path.parent == folder and member.path.name.endswith(ending) for member in members
    )


def _bomb(archive: Path) -> UserError:
    return UserError(
        f"{archive}: unpacks to more than a model of its size can be (at most {EXPANSION} times "
        f"the archive and {LARGEST_MODEL >> 30} GB); refused"
    )


@contextmanager
def _opened(archive: Path, limit: int) -> Generator[list[Member]]:
    """The regular files of a .zip or .tar archive, once every entry has been found harmless."""
    members: dict[PurePosixPath, Member] = {}
    total = 0

    def look_at(name: str, size: int, mode: int, opener: Callable[[], Any]) -> None:
        nonlocal total
        total += size
        path = PurePosixPath(name.replace("\\", "/"))
        if path.is_absolute() or ".." in path.parts or (path.parts and ":" in path.parts[0]):
            raise UserError(f"{archive}: {name!r:.200} leads out of the archive's folder; refused")
        if mode not in (stat.S_IFREG, stat.S_IFDIR):
            raise UserError(f"{archive}: {name!r:.200} is a link or a device; refused")
        if path in members:
            raise UserError(f"{archive}: holds {name!r:.200} twice; refused")
        if total > limit or len(members) >= MOST_MEMBERS:
            raise _bomb(archive)
        if mode == stat.S_IFREG:
            members[path] = Member(path, size, opener)

    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as file:
            for info in file.infolist():
                if info.flag_bits & 1:
                    raise UserError(f"{archive}: is encrypted; unpack it and name its folder")
                usual = stat.S_IFDIR if info.is_dir() else stat.S_IFREG
                mode = stat.S_IFMT(info.external_attr >> 16) or usual
                look_at(info.filename, info.file_size, mode, partial(file.open, info))
            yield list(members.values())
        return
    with tarfile.open(archive) as file:
        # One header after the other: a size is looked at before its bytes are passed over.
        for entry in file:
            mode = {True: stat.S_IFREG, False: stat.S_IFLNK}[entry.isreg()]
            mode = stat.S_IFDIR if entry.isdir() else mode
            look_at(entry.name, entry.size, mode, partial(file.extractfile, entry))
        yield list(members.values())
