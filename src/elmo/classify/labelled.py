"""Texts with their labels, read from tables, each with its place, so that messages can name it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from elmo.classify.table_columns import choose_columns
from elmo.errors import UserError
from elmo.text.sources import ReadOptions, Source, read_columns, resolve

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
