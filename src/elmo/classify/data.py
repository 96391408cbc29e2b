"""Which column of a table holds the text, and which the label."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from elmo.config import nearest
from elmo.errors import UserError
from elmo.text import ag_news
from elmo.text.config import ReadOptions
from elmo.text.readers import TEXT_COLUMN, find_columns, is_number, listing
from elmo.text.sources import Source, first_row, read_columns, resolve

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


# Texts with their labels, read from tables, each with its place, so that messages can name it.


_SHOWN = 5


@dataclass(frozen=True, kw_only=True)
class LabelOptions:
    """How the labels are found inside the files."""

    label_column: str | None = None
    """Column that holds the label in csv, tsv, jsonl and parquet files: a name, or a number counted
    from 0. Default: the column named "label" or, of two columns without names, the first."""


@dataclass(frozen=True)
class LabelledTexts:
    """Texts in the order of the files, empty ones too, so that rows stay rows."""

    texts: list[str]
    labels: list[str] | None
    """None where the labels are not known."""
    places: list[str]
    """Where each text was read, such as "'news.csv', row 12"; a header is not counted."""

    def some(self, rows: Sequence[int]) -> LabelledTexts:
        """Only these rows, in this order."""
        return LabelledTexts(
            [self.texts[row] for row in rows],
            None if self.labels is None else [self.labels[row] for row in rows],
            [self.places[row] for row in rows],
        )

    @property
    def digest(self) -> str:
        """A checksum of texts and labels."""
        content = json.dumps([self.texts, self.labels])
        return hashlib.sha256(content.encode()).hexdigest()


@dataclass(frozen=True)
class _Row:
    text: str
    label: str | None
    place: str


def read_labelled(
    sources: Sequence[str] | str,
    options: ReadOptions | None = None,
    label_column: str | None = None,
) -> LabelledTexts:
    """Read texts and labels from tables or AG News; a row without a label is a mistake."""
    rows = list(_all_rows(sources, options, label_column, labelled=True))
    if missing := [row.place for row in rows if not row.label]:
        raise _missing(missing, len(rows))
    labels = [row.label or "" for row in rows]
    return LabelledTexts([row.text for row in rows], labels, [row.place for row in rows])


def read_unlabelled(
    sources: Sequence[str] | str, options: ReadOptions | None = None
) -> LabelledTexts:
    """Read texts alone, from tables with or without labels or from plain text, a text a line."""
    rows = list(_all_rows(sources, options, None, labelled=False))
    return LabelledTexts([row.text for row in rows], None, [row.place for row in rows])


def _all_rows(
    sources: Sequence[str] | str,
    options: ReadOptions | None,
    label_column: str | None,
    *,
    labelled: bool,
) -> Iterator[_Row]:
    for source in resolve([sources] if isinstance(sources, str) else sources):
        yield from _rows(source, options or ReadOptions(), label_column, labelled=labelled)


def _rows(
    source: Source, options: ReadOptions, label_column: str | None, *, labelled: bool
) -> Iterator[_Row]:
    chosen = choose_columns(source, options, label_column, labelled=labelled)
    columns = [column for column in (chosen.text, chosen.label) if column is not None]
    unit = "row" if columns else "line"
    for number, values in enumerate(read_columns(source, columns or None, chosen.options), start=1):
        # As documents are read in pre-training, so that the same words come of them.
        text = " ".join(values[0].splitlines())
        label = values[1].strip() if labelled else None
        yield _Row(text, label, f"'{source.name}', {unit} {number}")


def _missing(places: Sequence[str], rows: int) -> UserError:
    shown = "; ".join(places[:_SHOWN]) + ("; …" if len(places) > _SHOWN else "")
    verb = "has" if len(places) == 1 else "have"
    return UserError(
        f"{len(places):,} of {rows:,} rows {verb} no label: {shown}; "
        "give every row a label, or leave it out"
    )


# The labels a classifier knows, in an order that does not depend on the order of the rows.


_NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]+)?")
_LABELS_SHOWN = 20


@dataclass(frozen=True)
class Labels:
    """Label names; a class is its place among them."""

    names: tuple[str, ...]

    @classmethod
    def of(cls, labels: Iterable[str]) -> Labels:
        """The distinct labels: numbers by size, AG News as it has them, others by alphabet."""
        distinct = set(labels)
        if len(distinct) < 2:
            raise UserError(
                f"expected at least two labels, but there is only {_listing(sorted(distinct))}; "
                "add texts with other labels, or say with --label-column which column holds them"
            )
        return cls(_ordered(distinct))

    def __len__(self) -> int:
        """How many classes there are."""
        return len(self.names)

    def encode(self, labels: Sequence[str], places: Sequence[str]) -> NDArray[np.int64]:
        """The class of each label; one that was not there in training is named with its place."""
        classes = {name: place for place, name in enumerate(self.names)}
        unknown: dict[str, str] = {}
        for label, place in zip(labels, places, strict=True):
            if label not in classes:
                unknown.setdefault(label, place)
        if unknown:
            raise self._unknown(unknown)
        return np.array([classes[label] for label in labels], np.int64)

    def _unknown(self, places: dict[str, str]) -> UserError:
        found = [
            f"{label!r:.80}, first at {place}{nearest(label, self.names)}"
            for label, place in list(places.items())[:_LABELS_SHOWN]
        ]
        more = f"; and {len(places) - _LABELS_SHOWN:,} more" if len(places) > _LABELS_SHOWN else ""
        return UserError(
            f"labels that were not there in training: {'; '.join(found)}{more}; the known ones "
            f"are {_listing(self.names)}; mend these rows or leave them out, or train on them too"
        )


def _ordered(distinct: set[str]) -> tuple[str, ...]:
    if distinct <= set(ag_news.LABELS):
        return tuple(name for name in ag_news.LABELS if name in distinct)
    if all(_NUMBER.fullmatch(name) for name in distinct):
        return tuple(sorted(distinct, key=lambda name: (float(name), name)))
    return tuple(sorted(distinct))


def _listing(names: Sequence[str]) -> str:
    shown = ", ".join(f"{name!r:.80}" for name in names[:_LABELS_SHOWN])
    return (
        f"{shown} and {len(names) - _LABELS_SHOWN:,} more" if len(names) > _LABELS_SHOWN else shown
    )


# Rows drawn class by class: a development part, or the same few of each class.


Rows = NDArray[np.int64]


class Split(NamedTuple):
    """Row numbers of the two parts, each in rising order."""

    train: Rows
    development: Rows


def development_split(
    labels: Rows, share: float, seed: int, names: Sequence[str] | None = None
) -> Split:
    """Set aside this share of every class, at least one row of it and never all."""
    if not 0 < share < 1:
        raise UserError(f"expected a development share between 0 and 1, got {share}")
    _require(labels, 2, "one for training and one for development", names)
    classes = _shuffled_classes(labels, seed)
    sizes = [min(max(1, round(share * len(rows))), len(rows) - 1) for rows in classes]
    development = [rows[:size] for rows, size in zip(classes, sizes, strict=True)]
    train = [rows[size:] for rows, size in zip(classes, sizes, strict=True)]
    return Split(np.sort(np.concatenate(train)), np.sort(np.concatenate(development)))


def few_labels(labels: Rows, per_class: int, seed: int, names: Sequence[str] | None = None) -> Rows:
    """Draw this many rows of every class; of the same seed, fewer are a part of more."""
    if per_class < 1:
        raise UserError(f"expected at least one row a class, got {per_class}")
    _require(labels, per_class, "as many as were asked for", names)
    return np.sort(np.concatenate([rows[:per_class] for rows in _shuffled_classes(labels, seed)]))


def _shuffled_classes(labels: Rows, seed: int) -> list[Rows]:
    """The rows of each class that occurs, in random order."""
    order = np.random.default_rng(seed).permutation(len(labels))
    by_class = order[np.argsort(labels[order], kind="stable")]
    return np.split(by_class, np.flatnonzero(np.diff(labels[by_class])) + 1)


def _require(labels: Rows, least: int, why: str, names: Sequence[str] | None) -> None:
    if not len(labels):
        raise UserError("expected labelled rows, but there are none")
    classes, counts = np.unique(labels, return_counts=True)
    small = np.flatnonzero(counts < least)
    if len(small):
        found = [f"{_name(int(classes[one]), names)} has {counts[one]:,}" for one in small[:_SHOWN]]
        more = f" and {len(small) - _SHOWN:,} classes more" if len(small) > _SHOWN else ""
        raise UserError(
            f"every class needs at least {least:,} rows, {why}, but {', '.join(found)}{more}; "
            "add rows, leave these classes out, or check --label-column"
        )


def _name(one: int, names: Sequence[str] | None) -> str:
    return f"class {one}" if names is None else repr(names[one])
