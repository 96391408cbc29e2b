"""Comma- and tab-separated values, with or without a header."""

from __future__ import annotations

import csv
import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path

from elmo.errors import UserError
from elmo.text.readers.columns import TEXT_COLUMN, find_columns, is_number
from elmo.text.readers.lines import content_suffix, read_lines
from elmo.text.readers.options import ReadOptions

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
