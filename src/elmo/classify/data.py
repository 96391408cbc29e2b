"""Labelled texts: read from tables, labels turned into classes, rows split class by class."""

from __future__ import annotations

import hashlib
import json
import logging
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from elmo.config import nearest
from elmo.errors import UserError
from elmo.runtime import machine_memory
from elmo.text import ag_news
from elmo.text.config import ReadOptions
from elmo.text.readers import TEXT_COLUMN, find_column, is_number, listing
from elmo.text.sources import Source, first_row, read_columns, resolve

LABEL_COLUMN = "label"
MAX_LABELS = 10_000
"""More distinct labels than this are most likely a wrong column, such as an id."""
BYTES_PER_SCORE = 40
"""Memory per text and label, half of the machine's at most: about ten arrays while parts learn."""

Rows = NDArray[np.int64]
log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class LabelOptions:
    """Where tables hold the labels."""

    label_column: str | None = None
    """Column of the label in csv, tsv, jsonl and parquet files: a name, or an index from 0.
    Default: the column named "label" or, of two columns without names, the first."""
    labels_separator: str | None = None
    """What separates the labels of a text that may have several, such as ";". Default: one each."""

    def problems(self) -> Iterable[str]:
        if self.labels_separator == "":
            yield "labels_separator: expected one or more characters, such as ';', got none"


@dataclass(frozen=True)
class LabelledTexts:
    """Texts in the order of the files; empty texts are included, so that rows stay aligned."""

    texts: list[str]
    labels: list[str] | None
    """None where the labels are not known."""
    locations: list[str]
    """Where each text was read, such as "'news.csv', row 12"; a header is not counted."""
    separator: str | None = None
    """What separates the labels of one text; None: each text has exactly one."""

    def select(self, rows: Sequence[int]) -> LabelledTexts:
        return LabelledTexts(
            [self.texts[row] for row in rows],
            None if self.labels is None else [self.labels[row] for row in rows],
            [self.locations[row] for row in rows],
            self.separator,
        )

    @property
    def digest(self) -> str:
        content = [self.texts, self.labels, *([self.separator] if self.separator else [])]
        return hashlib.sha256(json.dumps(content).encode()).hexdigest()

    @property
    def label_names(self) -> tuple[str, ...]:
        """All labels that occur, as `label_names` orders them."""
        sets = (split_labels(labels, self.separator) for labels in self.labels or ())
        return label_names(label for labels in sets for label in labels)

    def encoded(self, names: Sequence[str]) -> Rows:
        """The class of each text, (texts,), or which labels it has, (texts, labels), 0 or 1."""
        return encode_labels(self.labels or (), names, self.locations, self.separator)


def split_labels(labels: str, separator: str | None) -> tuple[str, ...]:
    """The labels in a cell of a table, each once; all of it is one label without a separator.

    >>> split_labels("sports; money;sports", ";")
    ('sports', 'money')
    """
    if separator is None:
        return (labels,)
    parts = (part.strip() for part in labels.split(separator))
    return tuple(dict.fromkeys(part for part in parts if part))


def read_labelled(
    sources: Sequence[str] | str,
    options: ReadOptions | None = None,
    label_column: str | None = None,
    labels_separator: str | None = None,
) -> LabelledTexts:
    """Read texts and their labels from tables or AG News.

    Rows with an empty text are kept and their number is logged. A row without a label, unless texts
    may have several, or a first row that looks like a header but has no known name, is an error.
    """
    options = options or ReadOptions()
    texts: list[str] = []
    labels: list[str] = []
    locations: list[str] = []
    first_rows: list[int] = []  # rows that may be headers
    for source in resolve(sources):
        columns, reading = choose_columns(source, options, label_column, labelled=True)
        if source.format == "delimited" and options.header == "auto" and reading.header == "no":
            first_rows.append(len(texts))
        for row, (text, label) in enumerate(read_columns(source, columns, reading), start=1):
            texts.append(_on_one_line(text))
            labels.append(label.strip())
            locations.append(f"'{source.name}', row {row}")
    unlabelled = [place for label, place in zip(labels, locations, strict=True) if not label]
    if unlabelled and labels_separator is None:
        verb = "has" if len(unlabelled) == 1 else "have"
        raise UserError(
            f"{len(unlabelled):,} of {len(labels):,} rows {verb} no label: "
            f"{_shortened(unlabelled)}; give every row a label, or leave it out"
        )
    sets = [split_labels(label, labels_separator) for label in labels]
    counts = Counter(label for some in sets for label in some)
    counts.subtract(label for row in first_rows for label in sets[row])
    for row in first_rows:
        # One label that repeats shows that this is a column of classes, not of distinct values.
        if not any(counts[label] for label in sets[row]) and max(counts.values(), default=0) > 1:
            raise UserError(
                f"{locations[row]} looks like a header, since no other row has the label "
                f"{labels[row]!r:.80}; use --header yes if it is one, --header no if it is not"
            )
    empty = [place for text, place in zip(texts, locations, strict=True) if not text.strip()]
    if empty:
        log.warning(
            "rows with an empty text: %d of %d (%s)", len(empty), len(texts), _shortened(empty)
        )
    return LabelledTexts(texts, labels, locations, labels_separator)


def read_unlabelled(
    sources: Sequence[str] | str, options: ReadOptions | None = None
) -> Iterator[str]:
    """Yield texts alone: from tables with or without labels, or from plain text, one per line."""
    for source in resolve(sources):
        columns, reading = choose_columns(source, options or ReadOptions(), None, labelled=False)
        for text, *_ in read_columns(source, columns, reading):
            yield _on_one_line(text)


def choose_columns(
    source: Source, options: ReadOptions, label_column: str | None, *, labelled: bool
) -> tuple[list[str] | None, ReadOptions]:
    """Decide which columns hold text and label, and whether the first row holds names.

    Columns are those asked for, else those named "text" and "label" in any case, else by order: of
    two columns without names the first is the label; of two columns, one of them known, the other
    is the text.

    Returns:
        The text column and, if `labelled`, the label column, by name or index; None for plain
        text, which has no columns. And the options to read them with.
    """
    if source.format == "ag_news":
        return [TEXT_COLUMN, LABEL_COLUMN] if labelled else [TEXT_COLUMN], options
    if source.format == "plain":
        if labelled:
            raise UserError(
                f"'{source.name}' is plain text, which has no labels; "
                "give a csv, tsv, jsonl or parquet file with a column for the label"
            )
        return None, options
    where, first = f"'{source.name}'", first_row(source, options)
    folded = [name.strip().casefold() for name in first]
    asked = [column for column in (options.column, label_column) if column is not None]
    if source.format != "delimited" or options.header != "auto":
        named = source.format != "delimited" or options.header == "yes"
    else:
        by_name = not all(is_number(column) for column in asked)
        named = by_name or TEXT_COLUMN in folded or LABEL_COLUMN in folded

    def position(column: str | None) -> int:
        return find_column(where, column, first, named=named)

    def default(name: str) -> int | None:
        return folded.index(name) if named and name in folded else None

    def other(column: int) -> int | None:
        return 1 - column if len(first) == 2 else None

    if label_column is not None:
        label = position(label_column)
    elif named:
        label = default(LABEL_COLUMN)
    else:
        label = other(1 if options.column is None else position(options.column))
    if labelled and label is None:
        raise UserError(
            f"{where}: expected a column named {LABEL_COLUMN!r}, or two columns without names "
            f"and the label first, but the first row is {listing(first)}; say which column "
            "holds the label with --label-column, by name or number"
        )
    text = default(TEXT_COLUMN) if options.column is None else position(options.column)
    if text is None and label is not None:
        text = other(label)
    if text is None:
        text = position(None)
    if text == label:
        raise UserError(
            f"{where}: column {first[text]!r} cannot be both text and label; the columns are "
            f"{listing(first)}; say which is which with --column and --label-column"
        )
    chosen = [text, label] if labelled and label is not None else [text]
    # By name where that is unique, since JSON objects may have their keys in any order.
    columns = [
        first[column] if named and first.count(first[column]) == 1 else str(column)
        for column in chosen
    ]
    return columns, replace(options, header="yes" if named else "no")


def _on_one_line(text: str) -> str:
    # As in pre-training, so that the same text gives the same words.
    return " ".join(text.splitlines())


def label_names(labels: Iterable[str]) -> tuple[str, ...]:
    """The distinct labels in an order that does not depend on the rows; a class is an index here.

    Numbers are ordered by value, AG News as its files number them, everything else as strings.
    """
    labels = list(labels)
    distinct = sorted(set(labels))
    if len(distinct) < 2:
        raise UserError(
            f"expected at least two labels, but there is only {_quoted(distinct)}; "
            "add texts with other labels, or say with --label-column which column holds them"
        )
    most = min(MAX_LABELS, machine_memory() // (2 * BYTES_PER_SCORE * len(labels)))
    if len(distinct) > most:
        raise UserError(
            f"expected at most {most:,} different labels, but there are {len(distinct):,}, "
            f"such as {_quoted(distinct)}; say with --label-column which column holds the label"
        )
    if set(distinct) <= set(ag_news.LABELS):
        return tuple(name for name in ag_news.LABELS if name in distinct)
    if all(re.fullmatch(r"[+-]?[0-9]+(\.[0-9]+)?", name) for name in distinct):
        return tuple(sorted(distinct, key=lambda name: (float(name), name)))
    return tuple(distinct)


def encode_labels(
    labels: Sequence[Any],
    names: Sequence[str],
    locations: Sequence[str] | None = None,
    separator: str | None = None,
) -> Rows:
    """The class of each text, (texts,), or with a separator its labels, (texts, labels), 0 or 1.

    Labels that are not among `names` are an error.
    """
    if separator is not None:
        from elmo.classify.label_sets import encode_sets

        return encode_sets(labels, names, separator, locations)
    labels = [str(label) for label in labels]
    classes = {name: index for index, name in enumerate(names)}
    unknown: dict[str, int] = {}
    for row, label in enumerate(labels):
        if label not in classes:
            unknown.setdefault(label, row)
    if unknown:
        shown = [
            f"{label!r:.80}, first at {f'row {row}' if locations is None else locations[row]}"
            f"{nearest(label, names)}"
            for label, row in list(unknown.items())[:_LABELS_SHOWN]
        ]
        hidden = len(unknown) - len(shown)
        more = f"; and {hidden:,} more" if hidden else ""
        raise UserError(
            f"labels that were not there in training: {'; '.join(shown)}{more}; the "
            f"known ones are {_quoted(names)}; correct these rows, leave them out, or train on them"
        )
    return np.array([classes[label] for label in labels], np.int64)


def check_test_rows(train: LabelledTexts, test: LabelledTexts) -> tuple[int, int]:
    """Before hours of training: refuse unknown test labels, name copied and half copied texts.

    Returns how many test texts are also training texts, and how many nearly are.
    """
    from elmo.classify.linear import ngram_hashes
    from elmo.text.corpus import representative_phrase

    test.encoded(train.label_names)
    known, phrases = dict[str, int](), dict[int, int]()
    for row, words in enumerate(map(_folded, train.texts)):
        known.setdefault(words, row)
        phrases.setdefault(representative_phrase(words.split() or [""]), row)
    copies: dict[str, list[str]] = {"also": [], "nearly": []}
    for words, where in zip(map(_folded, test.texts), test.locations, strict=True):
        row = phrases.get(representative_phrase(words.split() or [""]), 0)
        one = set(ngram_hashes(words.split()))
        other = set(ngram_hashes(_folded(train.texts[row]).split()))
        if words and words in known:
            copies["also"].append(f"{where} is {train.locations[known[words]]}")
        elif len(one & other) > len(one | other) / 2:
            copies["nearly"].append(f"{where} is nearly {train.locations[row]}")
    filled = [sum(bool(text.strip()) for text in part.texts) for part in (train, test)]
    if filled == 2 * [len(copies["also"])]:
        log.warning("test and training texts are the same: the test accuracy says nothing")
        return filled[0], 0
    for how, found in copies.items():
        if found:
            log.warning(
                "test texts that are %s training texts: %d of %d (%s); they make the test accuracy "
                "look better than it is", how, len(found), len(test.texts), _shortened(found),
            )  # fmt: skip
    return len(copies["also"]), len(copies["nearly"])


def _folded(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.casefold())) or text.strip()


def printable(label: str) -> str:
    """The label with control and direction characters escaped, for terminals and tables."""
    return _UNPRINTABLE.sub(lambda match: ascii(match[0])[1:-1], label)


_LABELS_SHOWN = 20
_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def _shortened(items: Sequence[str]) -> str:
    return "; ".join(items[:5]) + (f"; and {len(items) - 5:,} more" if len(items) > 5 else "")


def _quoted(names: Sequence[str]) -> str:
    shown = ", ".join(f"{name!r:.80}" for name in names[:_LABELS_SHOWN])
    return (
        f"{shown} and {len(names) - _LABELS_SHOWN:,} more" if len(names) > _LABELS_SHOWN else shown
    )


class Split(NamedTuple):
    """Row indices of the two parts, each in ascending order."""

    train: Rows
    development: Rows


def development_split(
    classes: Rows, fraction: float, seed: int, names: Sequence[str] | None = None
) -> Split:
    """Set aside this fraction of every class, at least one row of it and never all."""
    if not 0 < fraction < 1:
        raise UserError(f"development fraction: expected a number between 0 and 1, got {fraction}")
    by_class = rows_by_class(classes, seed, 2, "one for training and one for development", names)
    sizes = [min(max(1, round(fraction * len(rows))), len(rows) - 1) for rows in by_class]
    development = [rows[:size] for rows, size in zip(by_class, sizes, strict=True)]
    train = [rows[size:] for rows, size in zip(by_class, sizes, strict=True)]
    return Split(np.sort(np.concatenate(train)), np.sort(np.concatenate(development)))


def few_labels(
    classes: Rows, per_class: int, seed: int, names: Sequence[str] | None = None
) -> Rows:
    """Draw this many rows of every class; with the same seed, fewer rows are a subset of more."""
    if per_class < 1:
        raise UserError(f"rows per class: expected at least one, got {per_class}")
    by_class = rows_by_class(classes, seed, per_class, "as many as were asked for", names)
    return np.sort(np.concatenate([rows[:per_class] for rows in by_class]))


def rows_by_class(
    classes: Rows, seed: int, least: int, why: str, names: Sequence[str] | None
) -> list[Rows]:
    """The rows of each class that occurs, shuffled; every class must have `least` rows."""
    if not len(classes):
        raise UserError("expected labelled rows, but there are none")
    if classes.ndim == 2:  # of several labels the least frequent one
        from elmo.classify.label_sets import strata

        classes, names = strata(classes), None
    order = np.random.default_rng(seed).permutation(len(classes))
    grouped = order[np.argsort(classes[order], kind="stable")]
    by_class = np.split(grouped, np.flatnonzero(np.diff(classes[grouped])) + 1)
    small: list[str] = []
    for rows in by_class:
        if len(rows) < least:
            index = int(classes[rows[0]])
            name = f"class {index}" if names is None else repr(names[index])
            small.append(f"{name} has {len(rows):,}")
    if small:
        raise UserError(
            f"every class needs at least {least:,} rows, {why}, but {_shortened(small)}; "
            "add rows, leave these classes out, or check --label-column"
        )
    return by_class
