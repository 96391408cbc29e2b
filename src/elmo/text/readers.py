"""Rows of text from plain, delimited, JSON Lines and Parquet files, each may be compressed.

Every reader yields tuples of strings, one per row, and names file and line in its errors. Reading
is bounded: regular files only, lines of at most `LONGEST_LINE` bytes, and no more decompressed
bytes than `ExpansionLimit` allows, so that no small file can ask for gigabytes.
"""

from __future__ import annotations

import bz2
import csv
import difflib
import gzip
import io
import itertools
import json
import logging
import lzma
import re
import tempfile
import zlib
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, cast

from elmo.errors import UserError
from elmo.files import require_regular
from elmo.runtime import require_extra
from elmo.text.config import ReadOptions

TEXT_COLUMN = "text"
LONGEST_LINE = 1 << 24  # bytes per line, and per field of delimited files: several long novels
EXPANSION_RATIO, EXPANSION_FLOOR = 200, 1 << 28
"""A compressed file may hold 200 times its size (text: 3 to 10 times), but at least 256 MiB."""

_BOM = b"\xef\xbb\xbf"
_DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "vertical bars"}
_SNIFFED_LINES, _SNIFFED_BYTES = 50, 1 << 20
_COLUMN_NAME = re.compile(r"[^\W\d][\w .\-]{0,30}")
_ROWS_PER_BATCH = 1024

log = logging.getLogger(__name__)


# Bytes and lines.


class ExpansionLimit:
    """Counts what is unpacked from a file; raises a `UserError` beyond the limit."""

    def __init__(self, path: Path) -> None:
        self._path, self._size = path, require_regular(path).st_size
        self._left = max(EXPANSION_FLOOR, EXPANSION_RATIO * self._size)

    def add(self, count: int) -> None:
        self._left -= count
        if self._left < 0:
            raise UserError(
                f"'{self._path}' has {self._size:,} bytes, but unpacks to more than "
                f"{EXPANSION_RATIO} times as many; unpack it yourself if you trust it"
            )


class _Zstandard(io.RawIOBase):
    """Reads .zst; zstandard's own reader takes a file that was cut short for a whole one."""

    def __init__(self, file: BinaryIO) -> None:
        self._package: Any = require_extra("zstandard", "zstd")
        self._file, self._packed, self._unpacked = file, b"", b""
        self._frame: Any = None

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._unpacked:
            # Little at a time: a thousand bytes can unpack to 32 MB, but not to more.
            self._packed = self._packed or self._file.read(1 << 10)
            if not self._packed:
                if self._frame is not None:
                    raise EOFError("it ends within a frame")
                return 0
            self._frame = self._frame or self._package.ZstdDecompressor().decompressobj()
            try:
                self._unpacked, self._packed = self._frame.decompress(self._packed), b""
            except self._package.ZstdError as error:
                raise EOFError(str(error)) from None
            if self._frame.eof:
                self._packed, self._frame = self._frame.unused_data, None
        count = min(len(buffer), len(self._unpacked))
        buffer[:count], self._unpacked = self._unpacked[:count], self._unpacked[count:]
        return count


COMPRESSIONS: dict[str, Callable[[BinaryIO], Any]] = {
    ".gz": gzip.open,
    ".bz2": bz2.open,
    ".xz": lzma.open,
    ".zst": lambda file: io.BufferedReader(_Zstandard(file)),
}
"""How files are unpacked, by the last suffix of their names; .zst needs the extra `zstd`."""


def is_compressed(path: Path) -> bool:
    return path.suffix.lower() in COMPRESSIONS


def content_suffix(path: Path) -> str:
    """The suffix that tells the format: in lower case, without a final `.gz` or the like."""
    return Path(path.stem if is_compressed(path) else path.name).suffix.lower()


@contextmanager
def open_bytes(path: Path) -> Generator[BinaryIO]:
    """Open a regular file for reading, unpacked if need be; failures become a `UserError`."""
    require_regular(path)
    try:
        with path.open("rb") as file:
            if is_compressed(path):
                with COMPRESSIONS[path.suffix.lower()](file) as unpacked:
                    yield cast(BinaryIO, unpacked)
            else:
                yield file
    except (EOFError, zlib.error, lzma.LZMAError, OSError) as error:
        # For damaged files, gzip and bz2 raise an OSError of their own, which has no number.
        if not isinstance(error, OSError) or error.errno is None:
            kind = {".gz": "gzip", ".zst": "zstandard"}.get(path.suffix, path.suffix[1:])
            raise UserError(
                f"'{path}' is not a complete {kind} file ({error}); copy or download it again, "
                f"or take {path.suffix!r} off its name if it is not compressed"
            ) from None
        raise UserError(
            f"cannot read '{path}': {error.strerror or error}; check the path and its permissions"
        ) from None


def read_lines(path: Path, options: ReadOptions) -> Iterator[str]:
    """Yield the lines of a UTF-8 file with their line ends, without a byte order mark."""
    with open_bytes(path) as file:
        limit = ExpansionLimit(path)
        # readline with a limit, since iteration would read a line of any length.
        lines = iter(lambda: file.readline(LONGEST_LINE + 1), b"")
        for number, raw in enumerate(lines, start=1):
            limit.add(len(raw))
            if len(raw) > LONGEST_LINE:
                raise UserError(
                    f"'{path}', line {number}: longer than {LONGEST_LINE:,} bytes; expected one "
                    "document per line, so break the text into lines"
                )
            if number == 1:
                raw = raw.removeprefix(_BOM)
            if b"\0" in raw:
                raise UserError(
                    f"'{path}', line {number}: expected UTF-8 text, but there is a NUL byte, so "
                    "this is a binary file or UTF-16; convert it to UTF-8 text first"
                )
            try:
                yield raw.decode("utf-8", options.errors)
            except UnicodeDecodeError as error:
                raise UserError(
                    f"'{path}', line {number}: expected UTF-8, but byte {error.start + 1} of the "
                    f"line is 0x{raw[error.start]:02x}; convert the file to UTF-8, or use "
                    "--errors replace"
                ) from None


# Columns, by name or by index.


def is_number(column: str) -> bool:
    """Whether a column is named by its index."""
    return column.isascii() and column.isdigit()


def find_column(where: str, column: str | None, first: Sequence[str], *, named: bool = True) -> int:
    """The index of a column, given the names in the first row; None asks for the text column.

    Names match in any case unless the case decides. If the columns are not `named`, the first row
    holds values and only an index can be asked for.
    """
    wanted = TEXT_COLUMN if column is None else column
    if named and wanted in first:
        return first.index(wanted)
    folded = [name.strip().casefold() for name in first]
    if named and folded.count(wanted.casefold()) == 1:
        return folded.index(wanted.casefold())
    if column is None:
        if len(first) == 1:
            return 0
        raise UserError(
            f"{where}: expected a column named {TEXT_COLUMN!r} or a single column, but the first "
            f"row is {listing(first)}; say which column holds the text with --column, by name or "
            "number"
        )
    if is_number(column) and int(column) < len(first):
        return int(column)
    near = difflib.get_close_matches(column, first, n=1) if named else []
    hint = f"did you mean {near[0]!r}?" if near else "name one of these, or give its number"
    raise UserError(f"{where}: no column {column!r} among {listing(first)}; {hint}")


def listing(names: Sequence[str]) -> str:
    """The columns of a first row with their indices, for a message."""
    shortened = (name if len(name) <= 40 else name[:37] + "..." for name in names)
    return ", ".join(f"{idx}: {name!r}" for idx, name in enumerate(shortened))


# Plain text: one document per line.


def read_plain(
    path: Path, columns: Sequence[str] | None, options: ReadOptions
) -> Iterator[tuple[str, ...]]:
    """Yield every line as a row of one column."""
    if columns is not None:
        raise UserError(
            f"'{path}' is plain text, which has no columns, but {', '.join(columns)} was asked "
            "for; give a csv, tsv, jsonl or parquet file"
        )
    for line in read_lines(path, options):
        yield (line.rstrip("\r\n"),)


# Values separated by commas, semicolons, tabs or vertical bars.


def read_delimited(
    path: Path, columns: Sequence[str] | None, options: ReadOptions
) -> Iterator[tuple[str, ...]]:
    """Yield the fields of the columns asked for; None asks for the text column."""
    rows = read_fields(path, options)
    first = next(rows, None)
    if first is None:
        return
    names = first[1]
    if options.header != "auto":
        named = options.header == "yes"
    elif columns is None:
        named = TEXT_COLUMN in (name.strip().casefold() for name in names)
    else:
        named = not all(is_number(column) for column in columns)
    wanted: Sequence[str | None] = [None] if columns is None else columns
    indices = [find_column(f"'{path}'", column, names, named=named) for column in wanted]
    if not named:
        second = next(rows, None)
        if options.header == "auto" and second is not None and _is_header(names, second[1]):
            log.warning(
                "'%s': the first row (%s) looks like column names, but is read as text; "
                "if it names the columns, use --header yes",
                path,
                listing(names),
            )
        rows = itertools.chain([first], [] if second is None else [second], rows)
    skipped: list[int] = []
    for line, fields in rows:
        if not max(indices) < len(fields) <= len(names):
            if options.on_bad_rows == "skip":
                skipped.append(line)
                continue
            expected = f"at least {max(indices) + 1}" if len(fields) < len(names) else len(names)
            raise UserError(
                f"'{path}', line {line}: expected {expected} columns, as in the first row, but "
                f"there are {len(fields)}; fix the row, put double quotes around a field that "
                "contains the delimiter, or use --on-bad-rows skip"
            )
        yield tuple(fields[idx] for idx in indices)
    if skipped:
        lines = ", ".join(map(str, skipped[:5])) + (", …" if len(skipped) > 5 else "")
        log.warning(
            "'%s': rows left out, since they have too many or too few columns: %d (lines %s)",
            path,
            len(skipped),
            lines,
        )


def _is_header(first: Sequence[str], second: Sequence[str]) -> bool:
    """Short distinct names over a row that has numbers or longer text in their place."""
    names = [name.strip() for name in first]
    return (
        len(first) == len(second) > 1
        and len(set(names)) == len(names)
        and all(_COLUMN_NAME.fullmatch(name) and name.count(" ") < 3 for name in names)
        and any(not _COLUMN_NAME.fullmatch(v.strip()) or v.strip().count(" ") > 1 for v in second)
    )


def first_row(path: Path, options: ReadOptions) -> list[str]:
    """The first row, whether it holds names or values; empty for an empty file."""
    return next((fields for _, fields in read_fields(path, options)), list[str]())


def read_fields(
    path: Path, options: ReadOptions, delimiter: str | None = None
) -> Iterator[tuple[int, list[str]]]:
    """Yield every row that is not blank, with the number of the line on which it ends.

    The delimiter of a .csv file is the first of comma, semicolon, tab and vertical bar that cuts
    its first lines into equally many fields.
    """
    csv.field_size_limit(LONGEST_LINE)
    quoting = csv.QUOTE_MINIMAL if options.quotes else csv.QUOTE_NONE
    if delimiter is None and options.delimiter != "auto":
        delimiter = {"tab": "\t"}.get(options.delimiter, options.delimiter)
    if delimiter is None:
        delimiter = "\t" if content_suffix(path) == ".tsv" else _sniff(path, options, quoting)
    # Strict, since otherwise one stray quote silently swallows the rows after it.
    reader = csv.reader(
        read_lines(path, options), delimiter=delimiter, quoting=quoting, strict=True
    )
    try:
        for fields in reader:
            if fields:
                yield reader.line_num, fields
    except csv.Error as error:
        raise UserError(
            f"'{path}', line {reader.line_num}: not a well-formed row ({error}); fix the quotes, "
            "or use --no-quotes if double quotes are ordinary text in this file"
        ) from None


def _sniff(path: Path, options: ReadOptions, quoting: Any) -> str:
    sample: list[str] = []
    size = 0
    for line in itertools.islice(read_lines(path, options), _SNIFFED_LINES):
        sample.append(line)
        size += len(line)
        if size > _SNIFFED_BYTES:
            break
    for delimiter, name in _DELIMITERS.items():
        reader = csv.reader(sample, delimiter=delimiter, quoting=quoting)
        try:
            rows = [len(row) for row in reader if row]
        except csv.Error:
            continue
        if len(sample) == _SNIFFED_LINES or size > _SNIFFED_BYTES:
            rows = rows[:-1]  # its quotes may close after the sample
        if rows and rows[0] > 1 and len(set(rows)) == 1:
            if delimiter != ",":
                log.warning("'%s': its fields are separated by %s", path, name)
            return delimiter
    return ","


# JSON Lines: one object per line.


def read_json_lines(
    path: Path, columns: Sequence[str] | None, options: ReadOptions
) -> Iterator[tuple[str, ...]]:
    """Yield the values of the keys asked for; None asks for the key "text"."""
    keys = (TEXT_COLUMN,) if columns is None else columns
    for where, record in _records(path, options):
        row: list[str] = []
        for key in keys:
            if key not in record:
                names = list(record)
                key = names[find_column(where, key, names)]
            row.append(as_text(record[key], f"{where}, key {key!r}", options))
        yield tuple(row)


def json_lines_first_row(path: Path, options: ReadOptions) -> list[str]:
    """The keys of the first object; empty for an empty file."""
    return next((list(record) for _, record in _records(path, options)), list[str]())


def _records(path: Path, options: ReadOptions) -> Iterator[tuple[str, dict[str, object]]]:
    for number, line in enumerate(read_lines(path, options), start=1):
        if not line.strip():
            continue
        where = f"'{path}', line {number}"
        try:
            record: Any = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise UserError(
                f"{where}: not valid JSON ({error}); every line must be one JSON object"
            ) from None
        if not isinstance(record, dict):
            raise UserError(
                f'{where}: expected a JSON object such as {{"text": "..."}}, '
                f"but there is {record!r:.60}; fix the line"
            )
        yield where, cast(dict[str, object], record)


def as_text(value: object, where: str, options: ReadOptions) -> str:
    """A JSON or Parquet value as text: strings, UTF-8 bytes, and numbers (classes, scores)."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    if isinstance(value, bytes):
        try:
            return value.decode("utf-8", options.errors)
        except UnicodeDecodeError:
            raise UserError(
                f"{where}: there are bytes that are not UTF-8; fix the file, or use "
                "--errors replace"
            ) from None
    if not isinstance(value, str):
        raise UserError(f"{where}: expected a string, but there is {value!r:.60}; fix the file")
    if not value.isascii():
        try:  # JSON can spell half a surrogate pair, which no UTF-8 file could hold later on
            value.encode()
        except UnicodeEncodeError:
            if options.errors == "replace":
                return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
            raise UserError(
                f"{where}: there is half a surrogate pair, which is not text; "
                "fix the file, or use --errors replace"
            ) from None
    return value


# Parquet, batch by batch; needs the extra `parquet`.


def read_parquet(
    path: Path, columns: Sequence[str] | None, options: ReadOptions
) -> Iterator[tuple[str, ...]]:
    """Yield the values of the columns asked for; None asks for the text column."""
    arrow: Any = require_extra("pyarrow", "parquet")
    # Strings as bytes: a damaged file calls anything a string.
    as_bytes = {arrow.string(): arrow.binary(), arrow.large_string(): arrow.large_binary()}
    limit = ExpansionLimit(path)

    def values(column: Any) -> list[Any]:
        if not arrow.types.is_dictionary(column.type):
            return column.to_pylist()
        # Only the values of these rows: the dictionary may be that of millions.
        used = column.indices.unique().drop_null()
        found = column.dictionary.take(used)
        found = found.cast(as_bytes.get(found.type, found.type)).to_pylist()
        by_index = dict(zip(used.to_pylist(), found, strict=True))
        return [by_index.get(idx) for idx in column.indices.to_pylist()]

    with _open_table(path) as table:
        available: list[str] = table.schema_arrow.names
        wanted: Sequence[str | None] = [None] if columns is None else columns
        names = [available[find_column(f"'{path}'", column, available)] for column in wanted]
        for name in names:
            if available.count(name) > 1:
                raise UserError(f"'{path}': two columns are called {name!r}; rename one of them")
        number = 0
        for group in range(table.num_row_groups):
            pages = table.metadata.row_group(group)
            pages = [pages.column(idx) for idx in range(pages.num_columns)]
            limit.add(sum(c.total_uncompressed_size for c in pages if c.path_in_schema in names))
            for batch in table.iter_batches(_ROWS_PER_BATCH, [group], [*dict.fromkeys(names)]):
                for row in zip(*(values(batch.column(name)) for name in names), strict=True):
                    number += 1
                    fields = tuple(
                        as_text(value, f"'{path}', row {number}, column {name!r}", options)
                        for name, value in zip(names, row, strict=True)
                    )
                    limit.add(sum(map(len, fields)))
                    yield fields


def column_names(path: Path) -> list[str]:
    with _open_table(path) as table:
        return table.schema_arrow.names


@contextmanager
def _open_table(path: Path) -> Generator[Any]:
    parquet: Any = require_extra("pyarrow.parquet", "parquet")
    arrow: Any = require_extra("pyarrow", "parquet")
    require_regular(path)
    with tempfile.TemporaryDirectory(prefix="elmo-") as folder:
        unpacked = path
        if is_compressed(path):  # Parquet is read from its end, so it has to be unpacked first
            unpacked, limit = Path(folder) / path.stem, ExpansionLimit(path)
            with open_bytes(path) as packed, unpacked.open("wb") as file:
                while block := packed.read(1 << 20):
                    limit.add(len(block))
                    file.write(block)
        try:
            # As dictionaries: a value that a thousand rows share is held once. 600 bytes can spell
            # a thousand rows of 4 MB, which would otherwise be unpacked to gigabytes at once.
            fields = parquet.read_schema(unpacked)
            names = [field.name for field in fields if not arrow.types.is_nested(field.type)]
            with parquet.ParquetFile(unpacked, read_dictionary=names) as table:
                yield table
        except UserError:
            raise
        # ValueError and OverflowError: a value, such as a date, that Python cannot hold.
        except (arrow.ArrowException, OSError, ValueError, OverflowError) as error:
            raise UserError(
                f"'{path}' cannot be read as Parquet ({error}); copy or download it again"
            ) from None
