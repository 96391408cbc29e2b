"""Text that is elsewhere: fsspec addresses, data sets of the Hugging Face hub, lists in memory.

Each becomes a file in the cache, since training reads its text several times and a resumed job must
find the same text again. Nothing is fetched unless an address or a name asks for it.
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any, TypeGuard, cast

from elmo.errors import UserError, require_extra
from elmo.files import atomic_write, cache_folder, temporary_path

HUB = "hf:"
ROWS_AT_ONCE = 1000
Address = str
"""An address that fsspec knows, such as s3://bucket/file.txt."""

log = logging.getLogger(__name__)

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
_NAMED = re.compile(r"-|ag_news(:\w+)?|hf:\S+")
_PATH = re.compile(r"\S*[/\\*?]\S*|\S+\.\w{1,8}")


def is_address(name: str) -> bool:
    """Whether a name is an address of fsspec's rather than a local path."""
    return _SCHEME.match(name) is not None


def file_system(address: Address) -> tuple[Any, str]:
    """The file system of an address, and the path in it."""
    core: Any = import_module("fsspec.core")  # where it is used: it takes a moment to import
    try:
        return core.url_to_fs(address)
    except ImportError as error:
        scheme = address.partition(":")[0].replace("https", "http")
        advice = f"run: pip install 'fsspec[{scheme}]'"
        raise UserError(f"{address}: {error}; {advice}") from None
    except ValueError as error:
        raise UserError(f"{address}: {error}") from None


def find_addresses(address: Address) -> list[Address]:
    """The files that an address, a folder or a pattern stands for, in order."""
    files, path = file_system(address)
    try:
        paths = files.find(path) if files.isdir(path) else files.glob(path)
    except OSError as error:
        raise UserError(f"{address}: cannot be read ({error})") from None
    if not paths:
        raise UserError(f"{address}: no file is there; check the address")
    return [files.unstrip_protocol(path) for path in sorted(paths)]


def fetch(address: Address) -> Path:
    """A copy of the file at an address, in the cache; fetched again when the file changes."""
    files, path = file_system(address)
    try:
        version = hashlib.sha256(f"{address} {files.ukey(path)}".encode()).hexdigest()[:20]
        copy = cache_folder() / "fetched" / version / path.rpartition("/")[2]
        if not copy.exists():
            log.info("fetching %s", address)
            with atomic_write(copy) as temporary:
                files.get_file(path, str(temporary))
    except OSError as error:
        raise UserError(f"{address}: cannot be fetched ({error})") from None
    return copy


def fetch_dataset(name: str) -> Path:
    """A split of a data set of the hub, `hf:NAME[@CONFIG][:SPLIT]`, as JSON Lines in the cache.

    NAME may be a folder with files, too. Columns are strings, whole numbers and class labels, which
    are written by name; others are left out. The default split is train.
    """
    datasets: Any = require_extra("datasets", "datasets")
    where, _, split = name.removeprefix(HUB).partition(":")
    path, _, config = where.partition("@")
    try:
        rows = datasets.load_dataset(path, config or None, split=split or "train")
    except Exception as error:  # it raises errors of the hub, of its parsers, of the network, …
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise UserError(f"{name}: cannot be loaded ({reason:.200})") from None
    kinds = {
        column: feature
        for column, feature in rows.features.items()
        if hasattr(feature, "int2str")
        or getattr(feature, "dtype", "") in ("string", "large_string", "int64", "int32", "int8")
    }
    version = hashlib.sha256(f"{name} {rows._fingerprint}".encode()).hexdigest()[:20]
    file = cache_folder() / "datasets" / version / f"{path.replace('/', '-').strip('.-')}.jsonl"
    if not file.exists():
        with atomic_write(file) as temporary, temporary.open("w", encoding="utf-8") as stream:
            for batch in rows.select_columns(list(kinds)).iter(ROWS_AT_ONCE):
                columns = {
                    column: [
                        feature.int2str(value) if value >= 0 else "" for value in batch[column]
                    ]
                    if hasattr(feature, "int2str")
                    else batch[column]
                    for column, feature in kinds.items()
                }
                for values in zip(*columns.values(), strict=True):
                    record = dict(zip(columns, values, strict=True))
                    stream.write(json.dumps(record, ensure_ascii=False) + "\n")
    return file


# What a function of ours was given: texts, or the names of their files.


def are_sources(texts: object) -> TypeGuard[str | Sequence[str | Path]]:
    """Whether these are names of files rather than texts.

    They are if each of them is a `Path`, a file or folder that exists, '-', 'ag_news', 'hf:…', or
    has no white space and looks like a path (a slash, a pattern, a suffix) or an address.
    """
    if isinstance(texts, str | Path):
        return _is_source(texts)
    if not isinstance(texts, list | tuple) or not texts:
        return False
    return all(map(_is_source, cast("Sequence[object]", texts)))


def _is_source(item: object) -> bool:
    if not isinstance(item, str):
        return isinstance(item, Path)
    named = _NAMED.fullmatch(item) or is_address(item) or _PATH.fullmatch(item)
    try:
        return named is not None or (0 < len(item) < 256 and Path(item).exists())
    except (OSError, ValueError):
        return False


def text_sources(texts: object, cache: Path | None = None) -> list[str]:
    """The names of files as they are; texts as a file in the cache, named by its content.

    Args:
        texts: What `are_sources` tells apart. One string alone is the name of a source. Texts are
            strings, or lists of words, which are written with spaces between them.
        cache: Default: $ELMO_CACHE, or ~/.cache/elmo.
    """
    if isinstance(texts, str | Path):
        return [str(texts)]
    if are_sources(texts):
        return [str(name) for name in texts]
    folder = (cache or cache_folder()) / "texts"
    folder.mkdir(parents=True, exist_ok=True)
    digest, count = hashlib.sha256(), 0
    temporary = temporary_path(folder / "texts.jsonl")
    try:
        with temporary.open("wb") as stream:
            for text in _strings(texts):
                line = json.dumps({"text": text}, ensure_ascii=False).encode() + b"\n"
                digest.update(line)
                stream.write(line)
                count += 1
        if not count:
            raise UserError("no text was given; expected a list of texts, or the names of files")
        file = folder / f"{digest.hexdigest()[:20]}.jsonl"
        if not file.exists():  # an older file keeps its time, which a resumed run compares
            temporary.replace(file)
    finally:
        temporary.unlink(missing_ok=True)
    return [str(file)]


def iterated(texts: Any) -> Iterator[Any]:
    """The texts of a call one by one; what is no collection of texts is an error."""
    if isinstance(texts, str):
        raise UserError("expected several texts, got one string; put it in a list: [text]")
    if hasattr(texts, "columns"):
        raise UserError("expected one column of texts, such as df['text'], got a whole table")
    with suppress(TypeError):
        if not isinstance(texts, bytes):
            return iter(texts)
    raise UserError(f"expected a list of texts, got {type(texts).__name__}: {texts!r:.60}")


def several(texts: Any) -> list[Any]:
    """The texts of a call."""
    return list(iterated(texts))


def checked_words(text: Any) -> list[str]:
    """The words of a text that was cut into words already."""
    words: list[Any] | None = None
    with suppress(TypeError):
        words = None if isinstance(text, bytes) else list(text)
    if words is None:
        kind = type(text).__name__
        raise UserError(f"expected a string or a list of words, got {kind}: {text!r:.60}")
    if wrong := [word for word in words if not isinstance(word, str)]:
        raise UserError(f"expected words, got {type(wrong[0]).__name__}: {wrong[0]!r:.60}")
    return words


def _strings(texts: object) -> Iterator[str]:
    for number, text in enumerate(iterated(texts)):
        try:
            yield text if isinstance(text, str) else " ".join(checked_words(text))
        except UserError as error:
            raise UserError(f"text {number}: {error}") from None
