"""Bytes to lines of text: plain or gzip files, UTF-8 only, with errors that name file and line."""

from __future__ import annotations

import csv
import difflib
import gzip
import itertools
import json
import shutil
import tempfile
import zlib
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, cast

from elmo.errors import UserError, require_extra
from elmo.text.config import ReadOptions

# Which columns are meant: by name, by number, or the one that must hold the text.


TEXT_COLUMN = "text"


def is_number(column: str) -> bool:
    """Whether a column is asked for by its position."""
    return column.isascii() and column.isdigit()


def find_columns(
    where: str, columns: Sequence[str] | None, first: Sequence[str], *, named: bool = True
) -> list[int]:
    """Give the positions of the columns asked for; None asks for the text column.

    The first row holds the names, or if the columns are not named, the first values.
    """
    if columns is None:
        return [_text_position(where, first, named)]
    return [_position(where, column, first, named) for column in columns]


def _text_position(where: str, first: Sequence[str], named: bool) -> int:
    if named and TEXT_COLUMN in first:
        return first.index(TEXT_COLUMN)
    if len(first) == 1:
        return 0
    raise UserError(
        f"{where}: expected a column named {TEXT_COLUMN!r} or a single column, but the first row "
        f"is {listing(first)}; say which column holds the text with --column, by name or number"
    )


def _position(where: str, column: str, first: Sequence[str], named: bool) -> int:
    if named and column in first:
        return first.index(column)
    if is_number(column) and int(column) < len(first):
        return int(column)
    near = difflib.get_close_matches(column, first, n=1) if named else []
    hint = f"did you mean {near[0]!r}?" if near else "name one of these, or give its number"
    raise UserError(f"{where}: no column {column!r} among {listing(first)}; {hint}")


def listing(names: Sequence[str]) -> str:
    """The columns of a first row with their numbers, for a message."""
    shortened = (name if len(name) <= 40 else name[:37] + "..." for name in names)
    return ", ".join(f"{number}: {name!r}" for number, name in enumerate(shortened))


_BOM = b"\xef\xbb\xbf"


def is_gzip(path: Path) -> bool:
    """Whether the name says that the file is compressed."""
    return path.suffix.lower() == ".gz"


def content_suffix(path: Path) -> str:
    """Give the suffix that tells the format: in lower case, with a final `.gz` taken off."""
    return Path(path.stem if is_gzip(path) else path.name).suffix.lower()


@contextmanager
def open_bytes(path: Path) -> Generator[BinaryIO, None, None]:
    """Open a file for reading, decompressed if need be; what goes wrong becomes a `UserError`."""
    try:
        with path.open("rb") as file:
            if is_gzip(path):
                with gzip.open(file) as unpacked:
                    yield cast(BinaryIO, unpacked)
            else:
                yield file
    # BadGzipFile is an OSError too, so it has to come first.
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise UserError(
            f"'{path}' is not a complete gzip file ({error}); copy or download it again, "
            "or take '.gz' off its name if it is not compressed"
        ) from None
    except OSError as error:
        raise UserError(
            f"cannot read '{path}': {error.strerror or error}; check the path and its permissions"
        ) from None


def read_lines(path: Path, options: ReadOptions) -> Iterator[str]:
    """Yield the lines of a text file with their line ends, without a byte order mark."""
    with open_bytes(path) as file:
        for number, line in enumerate(file, start=1):
            raw = line.removeprefix(_BOM) if number == 1 else line
            if b"\0" in raw:
                raise UserError(
                    f"'{path}', line {number}: expected UTF-8 text, but there is a NUL byte, so "
                    "this is a binary file or UTF-16; convert it to UTF-8 text first"
                )
            yield _decode(raw, path, number, options)


@contextmanager
def unpacked_file(path: Path) -> Generator[Path, None, None]:
    """Give a path that holds the decompressed bytes, for formats that must seek."""
    if not is_gzip(path):
        yield path
        return
    with tempfile.TemporaryDirectory(prefix="elmo-") as folder:
        unpacked = Path(folder) / path.stem
        with open_bytes(path) as packed, unpacked.open("wb") as file:
            shutil.copyfileobj(packed, file)
        yield unpacked


def _decode(raw: bytes, path: Path, number: int, options: ReadOptions) -> str:
    try:
        return raw.decode("utf-8", options.errors)
    except UnicodeDecodeError as error:
        raise UserError(
            f"'{path}', line {number}: expected UTF-8, but byte {error.start + 1} of the line is "
            f"0x{raw[error.start]:02x}; convert the file to UTF-8, or use --errors replace"
        ) from None


# Comma- and tab-separated values, with or without a header.


# The largest value that every platform takes; the default of 128 KiB is too small for documents.
_FIELD_LIMIT = 2**31 - 1


def read_delimited(
    path: Path, columns: Sequence[str] | None, options: ReadOptions
) -> Iterator[tuple[str, ...]]:
    """Yield the fields of the columns asked for; None asks for the text column."""
    rows = read_fields(path, options)
    first = next(rows, None)
    if first is None:
        return
    named = _has_header(columns, first[1], options)
    positions = find_columns(f"'{path}'", columns, first[1], named=named)
    for line, fields in rows if named else itertools.chain([first], rows):
        if len(fields) <= max(positions):
            raise UserError(
                f"'{path}', line {line}: expected at least {max(positions) + 1} columns, as in the "
                f"first row, but there are {len(fields)}; mend the row"
            )
        yield tuple(fields[position] for position in positions)


def first_row(path: Path, options: ReadOptions) -> list[str]:
    """The first row, whether it holds names or values; nothing of an empty file."""
    return [
        field for _, fields in itertools.islice(read_fields(path, options), 1) for field in fields
    ]


def read_fields(path: Path, options: ReadOptions) -> Iterator[tuple[int, list[str]]]:
    """Yield every row that is not blank, with the number of the line on which it ends."""
    csv.field_size_limit(_FIELD_LIMIT)
    delimiter = "\t" if content_suffix(path) == ".tsv" else ","
    quoting = csv.QUOTE_MINIMAL if options.quotes else csv.QUOTE_NONE
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
            f"'{path}', line {reader.line_num}: not a well-formed row ({error}); mend the quotes, "
            "or use --no-quotes if double quotes are ordinary text in this file"
        ) from None


def _has_header(columns: Sequence[str] | None, first: Sequence[str], options: ReadOptions) -> bool:
    if options.header != "auto":
        return options.header == "yes"
    if columns is None:
        return TEXT_COLUMN in first
    return not all(is_number(column) for column in columns)


# Plain text: one document a line.


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


# Typed values, as JSON and Parquet have them, to strings.


def as_text(value: object, where: str, options: ReadOptions) -> str:
    """Take strings, and whole numbers since they label classes; refuse everything else."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str):
        raise UserError(f"{where}: expected a string, but there is {value!r:.60}; mend the file")
    return value if value.isascii() else _whole_characters(value, where, options)


def _whole_characters(value: str, where: str, options: ReadOptions) -> str:
    # JSON can spell half a surrogate pair, which no UTF-8 file could hold later on.
    try:
        value.encode()
    except UnicodeEncodeError:
        if options.errors == "replace":
            return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        raise UserError(
            f"{where}: there is half a surrogate pair, which is not text; "
            "mend the file, or use --errors replace"
        ) from None
    return value


# JSON lines: one object a line.


def read_json_lines(
    path: Path, columns: Sequence[str] | None, options: ReadOptions
) -> Iterator[tuple[str, ...]]:
    """Yield the values of the keys asked for; None asks for the key "text"."""
    keys = (TEXT_COLUMN,) if columns is None else columns
    for where, record in _records(path, options):
        yield tuple(_value(record, key, where, options) for key in keys)


def json_lines_first_row(path: Path, options: ReadOptions) -> list[str]:
    """The keys of the first object; nothing of an empty file."""
    return [key for _, record in islice(_records(path, options), 1) for key in record]


def _records(path: Path, options: ReadOptions) -> Iterator[tuple[str, dict[str, object]]]:
    for number, line in enumerate(read_lines(path, options), start=1):
        if line.strip():
            where = f"'{path}', line {number}"
            yield where, _parse(line, where)


def _parse(line: str, where: str) -> dict[str, object]:
    try:
        record: Any = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise UserError(
            f"{where}: not valid JSON ({error}); every line must be one JSON object"
        ) from None
    if not isinstance(record, dict):
        raise UserError(
            f'{where}: expected a JSON object such as {{"text": "..."}}, '
            f"but there is {record!r:.60}; mend the line"
        )
    return cast(dict[str, object], record)


def _value(record: dict[str, object], key: str, where: str, options: ReadOptions) -> str:
    if key not in record:
        names = list(record)
        key = names[find_columns(where, [key], names)[0]]
    return as_text(record[key], f"{where}, key {key!r}", options)


# Parquet, read batch by batch; needs the extra `parquet`.


_ROWS_A_BATCH = 1024


def read_parquet(
    path: Path, columns: Sequence[str] | None, options: ReadOptions
) -> Iterator[tuple[str, ...]]:
    """Yield the values of the columns asked for; None asks for the text column."""
    with unpacked_file(path) as unpacked, _open_table(unpacked, path) as table:
        available: list[str] = table.schema_arrow.names
        positions = find_columns(f"'{path}'", columns, available)
        names = [available[position] for position in positions]
        for number, row in enumerate(_rows(table, names), start=1):
            where = f"'{path}', row {number}"
            yield tuple(
                _text(value, f"{where}, column {name!r}", options)
                for name, value in zip(names, row, strict=True)
            )


def column_names(path: Path) -> list[str]:
    """The names of the columns."""
    with unpacked_file(path) as unpacked, _open_table(unpacked, path) as table:
        return table.schema_arrow.names


@contextmanager
def _open_table(unpacked: Path, path: Path) -> Generator[Any, None, None]:
    parquet = require_extra("pyarrow.parquet", "parquet")
    arrow = require_extra("pyarrow", "parquet")
    try:
        with parquet.ParquetFile(unpacked) as table:
            yield table
    except (arrow.ArrowInvalid, OSError) as error:
        raise UserError(
            f"'{path}' cannot be read as Parquet ({error}); copy or download it again"
        ) from None


def _rows(table: Any, names: Sequence[str]) -> Iterator[tuple[object, ...]]:
    for batch in table.iter_batches(batch_size=_ROWS_A_BATCH, columns=list(dict.fromkeys(names))):
        yield from zip(*(_values(batch.column(name)) for name in names), strict=True)


def _values(column: Any) -> list[object]:
    """The values of a column, strings as bytes: a damaged file calls anything a string."""
    arrow = require_extra("pyarrow", "parquet")
    kinds = {arrow.string(): arrow.binary(), arrow.large_string(): arrow.large_binary()}
    kind = kinds.get(column.type)
    return (column if kind is None else column.cast(kind)).to_pylist()


def _text(value: object, where: str, options: ReadOptions) -> str:
    if not isinstance(value, bytes):
        return as_text(value, where, options)
    try:
        return value.decode("utf-8", options.errors)
    except UnicodeDecodeError:
        raise UserError(
            f"{where}: there are bytes that are not UTF-8; mend the file, or use --errors replace"
        ) from None
