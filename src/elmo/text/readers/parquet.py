"""Parquet, read batch by batch; needs the extra `parquet`."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from elmo.errors import UserError, require_extra
from elmo.text.readers.columns import find_columns
from elmo.text.readers.lines import unpacked_file
from elmo.text.readers.options import ReadOptions
from elmo.text.readers.values import as_text

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
