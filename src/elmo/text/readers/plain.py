"""Plain text: one document a line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from elmo.errors import UserError
from elmo.text.readers.lines import read_lines
from elmo.text.readers.options import ReadOptions


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
