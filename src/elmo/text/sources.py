"""From what a user names (files, patterns, folders, standard input, AG News) to documents."""

from __future__ import annotations

import atexit
import difflib
import glob
import hashlib
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from elmo.errors import UserError
from elmo.text import ag_news
from elmo.text import readers as delimited
from elmo.text import readers as json_lines
from elmo.text import readers as parquet
from elmo.text.config import ReadOptions
from elmo.text.readers import content_suffix, read_plain

# Standard input kept in a temporary file, so that it can be read more than once.


_PIECE = 1 << 20


@dataclass(frozen=True, kw_only=True)
class Spooled:
    """Where the bytes lie until the program ends, and what identifies them."""

    path: Path
    sha256: str


def spool_standard_input() -> Spooled:
    """Copy all of standard input to a file that is removed when the program ends."""
    digest = hashlib.sha256()
    with tempfile.NamedTemporaryFile(prefix="elmo-stdin-", suffix=".txt", delete=False) as file:
        path = Path(file.name)
        atexit.register(path.unlink, missing_ok=True)
        while piece := sys.stdin.buffer.read(_PIECE):
            digest.update(piece)
            file.write(piece)
        if not file.tell():
            raise UserError(
                "expected text on standard input, one document a line, but it is empty; "
                "check the command before the pipe"
            )
    return Spooled(path=path, sha256=digest.hexdigest())


__all__ = ["ReadOptions", "Source", "first_row", "read_columns", "read_documents", "resolve"]

Format = Literal["plain", "delimited", "json_lines", "parquet", "ag_news"]
_Reader = Callable[[Path, Sequence[str] | None, ReadOptions], Iterator[tuple[str, ...]]]

_READERS: dict[Format, _Reader] = {
    "plain": read_plain,
    "delimited": delimited.read_delimited,
    "json_lines": json_lines.read_json_lines,
    "parquet": parquet.read_parquet,
    "ag_news": ag_news.read_ag_news,
}
_FIRST_ROWS: dict[Format, Callable[[Path, ReadOptions], list[str]]] = {
    "delimited": delimited.first_row,
    "json_lines": json_lines.json_lines_first_row,
    "parquet": lambda path, _: parquet.column_names(path),
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
_REFUSED = {".json", ".bz2", ".xz", ".zst", ".zip", ".tar", ".tgz", ".pdf", ".docx", ".xlsx"}


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
        """Tell whether the source has changed: two equal fingerprints mean the same documents."""
        if self.content_hash is not None:
            return f"{self.name} sha256={self.content_hash}"
        status = self.path.stat()
        path = self.path.resolve()
        return f"{self.format} {path} size={status.st_size} mtime_ns={status.st_mtime_ns}"


def read_documents(sources: Sequence[Source], options: ReadOptions) -> Iterator[str]:
    """Yield the documents of all sources in order, each on one line, without blank ones."""
    column = None if options.column is None else (options.column,)
    for source in sources:
        found = False
        columns = column if source.is_table else None
        for (text,) in _rows(source, columns, options):
            if text and not text.isspace():
                found = True
                yield " ".join(text.splitlines())
        if not found:
            raise _empty(source)


def read_columns(
    source: Source, columns: Sequence[str] | None, options: ReadOptions
) -> Iterator[tuple[str, ...]]:
    """Yield columns of a source, row by row, as they are in the file; None asks for the text."""
    row = None
    for row in _rows(source, columns, options):
        yield row
    if row is None:
        raise _empty(source)


def first_row(source: Source, options: ReadOptions) -> list[str]:
    """The names of a table's columns or, where they have none, the first values."""
    found = _FIRST_ROWS[source.format](source.path, options)
    if not found:
        raise _empty(source)
    return found


def resolve(sources: Sequence[str]) -> list[Source]:
    """Turn the names of files, patterns, folders, `-` and `ag_news[:split]` into sources."""
    if not sources:
        raise UserError("no text was named; give files, folders, patterns, '-' or 'ag_news'")
    if sources.count("-") > 1:
        raise UserError("'-' (standard input) is given more than once, but can be read only once")
    found = [source for name in sources for source in _resolve_one(name)]
    # A file that two patterns match is still one file.
    return list({source.path.resolve(): source for source in found}.values())


def _rows(
    source: Source, columns: Sequence[str] | None, options: ReadOptions
) -> Iterator[tuple[str, ...]]:
    return _READERS[source.format](source.path, columns, options)


def _empty(source: Source) -> UserError:
    return UserError(f"'{source.name}' holds no text; leave it out, or check how it was written")


def _resolve_one(name: str) -> list[Source]:
    if name == "-":
        return [_standard_input()]
    if name.partition(":")[0] == ag_news.NAME:
        return [Source(name=name, path=ag_news.locate(name), format="ag_news")]
    path = Path(name).expanduser()
    if path.is_dir():
        return [_file(found) for found in _files_below(path)]
    if not path.exists() and any(sign in name for sign in "*?["):
        return [_file(found) for found in _matches(path)]
    return [_file(path)]


def _file(path: Path) -> Source:
    suffix = content_suffix(path)
    if suffix in _REFUSED:
        raise UserError(
            f"'{path}': {suffix} files cannot be read; convert it to one of "
            f"{', '.join(_FORMATS)} (each may be gzipped), with one document a line or row"
        )
    if path.exists() and not path.is_file():
        # Opening a pipe only to see whether it can be opened would end the program that feeds it.
        raise UserError(
            f"'{path}' is not a regular file, so it cannot be read twice; use '-' with a pipe"
        )
    try:
        path.open("rb").close()
    except FileNotFoundError:
        raise _missing(path) from None
    except OSError as error:
        raise UserError(
            f"cannot read '{path}': {error.strerror or error}; check the path and its permissions"
        ) from None
    # Files named one by one are taken at the user's word: corpora often have no suffix at all.
    return Source(name=str(path), path=path, format=_FORMATS.get(suffix, "plain"))


def _standard_input() -> Source:
    spooled = spool_standard_input()
    return Source(
        name="standard input", path=spooled.path, format="plain", content_hash=spooled.sha256
    )


def _matches(pattern: Path) -> list[Path]:
    # Not Path.glob: what it matches with ** differs between Python versions.
    names = sorted(glob.glob(str(pattern), recursive=True))  # noqa: PTH207
    paths = [path for path in map(Path, names) if path.is_file()]
    if not paths:
        raise UserError(
            f"no file matches '{pattern}' in the folder '{Path.cwd()}'; check the pattern "
            "('*' stays within a folder, '**/' goes below it)"
        )
    return paths


def _files_below(folder: Path) -> list[Path]:
    files: list[Path] = []
    for parent, folders, names in os.walk(folder, onerror=_refuse_folder, followlinks=True):
        folders[:] = [name for name in folders if not name.startswith(".")]
        files += [Path(parent, name) for name in names if not name.startswith(".")]
    readable = sorted(path for path in files if content_suffix(path) in _FORMATS)
    if not readable:
        raise UserError(
            f"the folder '{folder}' has no readable files: expected names that end in "
            f"{', '.join(_FORMATS)} (each may be gzipped), but found {len(files)} others; "
            "name files of another kind one by one"
        )
    return readable


def _refuse_folder(error: OSError) -> None:
    raise UserError(
        f"cannot list the folder '{error.filename}': {error.strerror}; check its permissions"
    )


def _missing(path: Path) -> UserError:
    parent = path.parent
    if not parent.is_dir():
        return UserError(f"there is no '{path}', nor a folder '{parent}'; check the path")
    near = difflib.get_close_matches(path.name, [item.name for item in parent.iterdir()], n=1)
    hint = f"did you mean '{parent / near[0]}'?" if near else "check the path"
    return UserError(f"there is no file or folder '{path}'; {hint}")
