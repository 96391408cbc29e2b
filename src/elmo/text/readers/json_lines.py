"""JSON lines: one object a line."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, cast

from elmo.errors import UserError
from elmo.text.readers.columns import TEXT_COLUMN, find_columns
from elmo.text.readers.lines import read_lines
from elmo.text.readers.options import ReadOptions
from elmo.text.readers.values import as_text


def read_json_lines(
    path: Path, columns: Sequence[str] | None, options: ReadOptions
) -> Iterator[tuple[str, ...]]:
    """Yield the values of the keys asked for; None asks for the key "text"."""
    keys = (TEXT_COLUMN,) if columns is None else columns
    for where, record in _records(path, options):
        yield tuple(_value(record, key, where, options) for key in keys)


def first_row(path: Path, options: ReadOptions) -> list[str]:
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
