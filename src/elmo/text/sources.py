"""From what a user names (files, patterns, folders, addresses, AG News, …) to documents."""

from __future__ import annotations

import atexit
import difflib
import glob
import hashlib
import json
import logging
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, TypeGuard, cast

from elmo.errors import UserError
from elmo.files import cache_folder, expanded, temporary_path
from elmo.text import readers, remote
from elmo.text.config import ReadOptions
from elmo.text.readers import content_suffix

AG_NEWS = "ag_news"
log = logging.getLogger(__name__)

Format = Literal["plain", "delimited", "json_lines", "parquet", "ag_news"]
_Reader = Callable[[Path, Sequence[str] | None, ReadOptions], Iterator[tuple[str, ...]]]

_READERS: dict[Format, _Reader] = {
    "plain": readers.read_plain,
    "delimited": readers.read_delimited,
    "json_lines": readers.read_json_lines,
    "parquet": readers.read_parquet,
}
_FIRST_ROWS: dict[Format, Callable[[Path, ReadOptions], list[str]]] = {
    "delimited": readers.first_row,
    "json_lines": readers.json_lines_first_row,
    "parquet": lambda path, _: readers.column_names(path),
}
_FORMATS: dict[str, Format] = {
    ".txt": "plain",
    ".tokens": "plain",
    ".raw": "plain",
    ".csv": "delimited",
    ".tsv": "delimited",
    ".jsonl": "json_lines",
    ".parquet": "parquet",
}
# Files of these kinds would pass as lines of text without being it.
_REFUSED = {".json", ".zip", ".tar", ".tgz", ".pdf", ".docx", ".xlsx"}
_NAMED = re.compile(r"-|ag_news(:\w+)?|hf:\S+")
_PATH = re.compile(r"\S*[/\\*?]\S*|\S+\.\w{1,8}")


@dataclass(frozen=True, kw_only=True)
class Source:
    """One file to read, as often as need be."""

    name: str
    path: Path
    format: Format
    content_hash: str | None = None

    @property
    def is_table(self) -> bool:
        """Whether the user may have to say which column holds the text."""
        return self.format in _FIRST_ROWS

    def fingerprint(self) -> str:
        """Changes when the file does: its path, size and time, or a hash of standard input."""
        if self.content_hash is not None:
            return f"{self.name} sha256={self.content_hash}"
        paths = [self.path]
        if self.format == AG_NEWS:
            from elmo.text.ag_news import files_of

            paths = files_of(self.path)
        return " ".join(
            f"{self.format} {path.resolve()} size={status.st_size} mtime_ns={status.st_mtime_ns}"
            for path, status in ((path, path.stat()) for path in paths)
        )


def read_documents(sources: Sequence[Source], options: ReadOptions) -> Iterator[str]:
    """Yield the documents of all sources in order, each on one line, without blank ones."""
    column = None if options.column is None else (options.column,)
    for source in sources:
        is_empty = True
        for (text,) in _rows(source, column if source.is_table else None, options):
            if text and not text.isspace():
                is_empty = False
                yield " ".join(text.splitlines())
        if is_empty:
            raise _no_text(source)


def read_columns(
    source: Source, columns: Sequence[str] | None, options: ReadOptions
) -> Iterator[tuple[str, ...]]:
    """Yield columns of a source, row by row, as they are in the file; None asks for the text."""
    row = None
    for row in _rows(source, columns, options):
        yield row
    if row is None:
        raise _no_text(source)


def first_row(source: Source, options: ReadOptions) -> list[str]:
    """The names of a table's columns or, where they have none, the first values."""
    row = _FIRST_ROWS[source.format](source.path, options)
    if not row:
        raise _no_text(source)
    return row


def resolve(sources: Sequence[str] | str) -> list[Source]:
    """Turn one name or several into sources.

    They are files, patterns, folders, fsspec addresses, `-` (standard input), `ag_news[:split]`, or
    `hf:NAME[@CONFIG][:SPLIT]`, a data set of the Hugging Face hub.
    """
    sources = [sources] if isinstance(sources, str) else sources
    if not sources:
        raise UserError("no text was named; give files, folders, patterns, '-' or 'ag_news'")
    if sources.count("-") > 1:
        raise UserError("'-' (standard input) is given more than once, but can be read only once")
    files = [source for name in sources for source in _resolve_one(name)]
    # A file that two patterns match is still one file.
    return list({source.path.resolve(): source for source in files}.values())


def _rows(
    source: Source, columns: Sequence[str] | None, options: ReadOptions
) -> Iterator[tuple[str, ...]]:
    if source.format == "ag_news":
        from elmo.text.ag_news import read_ag_news  # with what it needs to download

        return read_ag_news(source.path, columns, options)
    return _READERS[source.format](source.path, columns, options)


def _no_text(source: Source) -> UserError:
    return UserError(f"'{source.name}' holds no text; leave it out, or check how it was written")


def _resolve_one(name: str) -> list[Source]:
    if name == "-":
        return [_standard_input()]
    if name.partition(":")[0] == AG_NEWS:
        from elmo.text.ag_news import locate

        return [Source(name=name, path=locate(name), format="ag_news")]
    if ":" in name:  # hf:…, or the scheme of an address
        if name.startswith(remote.HUB):
            return [replace(_file(remote.fetch_dataset(name)), name=name)]
        if remote.is_address(name):
            addresses = remote.find_addresses(name)
            return [replace(_file(remote.fetch(file)), name=file) for file in addresses]
    if (path := expanded(name)).is_dir():
        files = _files_below(path)
        shown = ", ".join(str(file.relative_to(path)) for file in files[:5])
        more = f" and {len(files) - 5:,} more" if len(files) > 5 else ""
        log.info("reading %d files of the folder '%s': %s%s", len(files), path, shown, more)
        return [_file(file) for file in files]
    if not path.exists() and any(sign in name for sign in "*?["):
        # Not Path.glob: what it matches with ** differs between Python versions.
        names = sorted(glob.glob(str(path), recursive=True))  # noqa: PTH207
        files = [file for file in map(Path, names) if file.is_file()]
        if not files:
            raise UserError(
                f"no file matches '{path}' in the folder '{Path.cwd()}'; check the pattern "
                "('*' stays within a folder, '**/' goes below it)"
            )
        return [_file(file) for file in files]
    return [_file(path)]


def _file(path: Path) -> Source:
    suffix = content_suffix(path)
    if suffix in _REFUSED:
        raise UserError(
            f"'{path}': {suffix} files cannot be read; convert it to one of "
            f"{', '.join(_FORMATS)} (each may be compressed), with one document per line or row"
        )
    if path.exists() and not path.is_file():
        # Opening a pipe only to see whether it can be opened would end the program that feeds it.
        raise UserError(
            f"'{path}' is not a regular file, so it cannot be read twice; use '-' with a pipe"
        )
    try:
        path.open("rb").close()
    except FileNotFoundError:
        folder = path.parent
        if not folder.is_dir():
            raise UserError(
                f"there is no '{path}', nor a folder '{folder}'; check the path"
            ) from None
        near = difflib.get_close_matches(path.name, [item.name for item in folder.iterdir()], n=1)
        hint = f"did you mean '{folder / near[0]}'?" if near else "check the path"
        raise UserError(f"there is no file or folder '{path}'; {hint}") from None
    except OSError as error:
        raise UserError(
            f"cannot read '{path}': {error.strerror or error}; check the path and its permissions"
        ) from None
    # Files named one by one are taken at the user's word: corpora often have no suffix at all.
    return Source(name=str(path), path=path, format=_FORMATS.get(suffix, "plain"))


def _standard_input() -> Source:
    """Copy standard input to a file, so that it can be read more than once."""
    if sys.stdin is None:  # pyright: ignore[reportUnnecessaryComparison]  # closed by the caller
        raise UserError("'-' asks for text on standard input, but that is closed; name a file")
    _remove_old_copies()
    digest = hashlib.sha256()
    with tempfile.NamedTemporaryFile(prefix=_COPY, suffix=".txt", delete=False) as file:
        path = Path(file.name)
        atexit.register(path.unlink, missing_ok=True)
        _LOCKS.append(_lock(path))
        while block := sys.stdin.buffer.read(1 << 20):
            digest.update(block)
            file.write(block)
        if not file.tell():
            raise UserError(
                "expected text on standard input, one document per line, but it is empty; "
                "check the command before the pipe"
            )
    return Source(name="standard input", path=path, format="plain", content_hash=digest.hexdigest())


_COPY = "elmo-stdin-"
_LOCKS: list[int | None] = []
"""Keeps copies of standard input locked, so that other processes see that they are in use."""


def _remove_old_copies() -> None:
    """Delete copies of standard input whose process was killed: nobody holds their lock."""
    for path in Path(tempfile.gettempdir()).glob(f"{_COPY}*.txt"):
        lock = _lock(path)
        if lock is not None:
            path.unlink(missing_ok=True)
            os.close(lock)


def _lock(path: Path) -> int | None:
    try:
        import fcntl
    except ImportError:  # Windows, which refuses to delete open files anyway
        return None
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:  # another user's
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


def _files_below(folder: Path) -> list[Path]:
    files: list[Path] = []

    def refuse(error: OSError) -> None:
        raise UserError(
            f"cannot list the folder '{error.filename}': {error.strerror}; check its permissions"
        )

    for parent, folders, names in os.walk(folder, onerror=refuse, followlinks=True):
        folders[:] = [name for name in folders if not name.startswith(".")]
        files += [Path(parent, name) for name in names if not name.startswith(".")]
    readable = sorted(path for path in files if content_suffix(path) in _FORMATS)
    if not readable:
        raise UserError(
            f"the folder '{folder}' has no readable files: expected names that end in "
            f"{', '.join(_FORMATS)} (each may be compressed), but found {len(files)} others; "
            "name files of another kind one by one"
        )
    return readable


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
    named = _NAMED.fullmatch(item) or remote.is_address(item) or _PATH.fullmatch(item)
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
