"""Which column of a table holds the text, and which the label."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from elmo.errors import UserError
from elmo.text.readers.columns import TEXT_COLUMN, find_columns, is_number, listing
from elmo.text.sources import ReadOptions, Source, first_row

LABEL_COLUMN = "label"


@dataclass(frozen=True)
class TableColumns:
    """The columns to read, and how: none where a file is its own text."""

    text: str | None
    label: str | None
    options: ReadOptions


@dataclass(frozen=True)
class _Table:
    """The first row of a table, and whether it holds names."""

    where: str
    first: list[str]
    named: bool

    def position(self, column: str) -> int:
        """Where a column is that was asked for."""
        return find_columns(self.where, [column], self.first, named=self.named)[0]

    def default(self, name: str) -> int | None:
        """Where the column of this name is, if there is one."""
        return self.first.index(name) if self.named and name in self.first else None

    def other(self, position: int) -> int | None:
        """The other one of two columns."""
        return 1 - position if len(self.first) == 2 else None

    def reference(self, position: int) -> str:
        """A name, since JSON objects may have theirs in any order, or else a number."""
        name = self.first[position]
        return name if self.named and self.first.count(name) == 1 else str(position)


def choose_columns(
    source: Source, options: ReadOptions, label_column: str | None, *, labelled: bool
) -> TableColumns:
    """Find text and label as asked for, or by the names "text" and "label", or by their order.

    A table of two columns without names has the label first; of two columns, one of them known,
    the other is the text. Without `labelled`, there may be no label.
    """
    if source.format == "ag_news":
        return TableColumns(TEXT_COLUMN, LABEL_COLUMN if labelled else None, options)
    if source.format == "plain":
        if labelled:
            raise _without_labels(source)
        return TableColumns(None, None, options)
    table = _open_table(source, options, label_column)
    label = _label_position(table, options.column, label_column)
    if labelled and label is None:
        raise _no_label_column(table)
    text = _text_position(table, options.column, label)
    if text == label:
        raise UserError(
            f"{table.where}: column {table.reference(text)!r} cannot be both text and label; "
            f"the columns are {listing(table.first)}; say which is which with --column and "
            "--label-column"
        )
    return TableColumns(
        table.reference(text),
        table.reference(label) if labelled and label is not None else None,
        replace(options, header=_header(table.named)),
    )


def _open_table(source: Source, options: ReadOptions, label_column: str | None) -> _Table:
    first = first_row(source, options)
    named = source.format != "delimited" or _has_header(first, options, label_column)
    return _Table(f"'{source.name}'", first, named)


def _has_header(first: Sequence[str], options: ReadOptions, label_column: str | None) -> bool:
    if options.header != "auto":
        return options.header == "yes"
    asked = [column for column in (options.column, label_column) if column is not None]
    by_name = not all(is_number(column) for column in asked)
    return by_name or TEXT_COLUMN in first or LABEL_COLUMN in first


def _header(named: bool) -> Literal["yes", "no"]:
    return "yes" if named else "no"


def _label_position(table: _Table, text_column: str | None, label_column: str | None) -> int | None:
    if label_column is not None:
        return table.position(label_column)
    if table.named:
        return table.default(LABEL_COLUMN)
    text = 1 if text_column is None else table.position(text_column)
    return table.other(text)


def _text_position(table: _Table, text_column: str | None, label: int | None) -> int:
    if text_column is not None:
        return table.position(text_column)
    found = table.default(TEXT_COLUMN)
    if found is None and label is not None:
        found = table.other(label)
    if found is None:
        (found,) = find_columns(table.where, None, table.first, named=table.named)
    return found


def _without_labels(source: Source) -> UserError:
    return UserError(
        f"'{source.name}' is plain text, which has no labels; "
        "give a csv, tsv, jsonl or parquet file with a column for the label"
    )


def _no_label_column(table: _Table) -> UserError:
    return UserError(
        f"{table.where}: expected a column named {LABEL_COLUMN!r}, or two columns without names "
        f"and the label first, but the first row is {listing(table.first)}; say which column "
        "holds the label with --label-column, by name or number"
    )
