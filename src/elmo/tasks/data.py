"""Tagged sentences from CoNLL column files and CoNLL-U, and pairs of texts from tables.

CoNLL-U is parsed by the `conllu` package. Column files have no library of their own: rows are
checked here, and named by line.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Self, cast

from elmo.errors import UserError
from elmo.runtime import require_extra
from elmo.tasks.config import ReadPairs, ReadTags
from elmo.tasks.tags import NO_TAG
from elmo.text.config import ReadOptions
from elmo.text.readers import content_suffix, find_column, is_number, listing, read_lines
from elmo.text.sources import Source, first_row, read_columns, resolve

CONLLU_COLUMNS = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")
CONLLU_TAGS = ("upos", "xpos", "deprel")
PAIR_COLUMNS = (
    ("sentence1", "sentence2"), ("premise", "hypothesis"), ("text1", "text2"),
    ("question1", "question2"), ("first", "second"),
)  # fmt: skip
LABEL, SCORE = "label", "score"
FEW_TAGS = 50
"""Up to this many tags, however few words there are; above, each must have two words on average."""
_SHOWN = 5

log = logging.getLogger(__name__)


class Table:
    """Base of frozen dataclasses whose list fields have one item per row, `locations` included."""

    locations: list[str]
    """Where each row is, such as "'train.conll', line 12"."""

    def _columns(self) -> dict[str, list[Any]]:
        values = {field.name: getattr(self, field.name) for field in fields(cast("Any", self))}
        return {name: value for name, value in values.items() if isinstance(value, list)}

    def __len__(self) -> int:
        return len(self.locations)

    @property
    def digest(self) -> str:
        """SHA-256 of the rows, wherever they were read."""
        columns = [column for name, column in self._columns().items() if name != "locations"]
        return hashlib.sha256(json.dumps(columns).encode()).hexdigest()

    def select(self, rows: Sequence[int]) -> Self:
        """Only these rows, in this order."""
        chosen = {n: [column[row] for row in rows] for n, column in self._columns().items()}
        return replace(cast("Any", self), **chosen)

    def __add__(self, other: Self) -> Self:
        added = other._columns()
        both = {name: column + added[name] for name, column in self._columns().items()}
        return replace(cast("Any", self), **both)


# Tagged sentences.


@dataclass(frozen=True)
class TaggedTexts(Table):
    """Sentences cut into words, with one tag per word."""

    words: list[list[str]]
    tags: list[list[str]]
    locations: list[str]


def read_tagged(
    sources: Sequence[str] | str,
    columns: ReadTags | None = None,
    options: ReadOptions | None = None,
) -> TaggedTexts:
    """Read sentences with tags; `.conllu` files as CoNLL-U, all others as CoNLL columns.

    Columns are separated by tabs or, in files without any, by spaces; sentences by blank lines.
    `-DOCSTART-` lines are left out, and so are multi-word tokens and empty nodes of CoNLL-U.
    """
    columns, options = columns or ReadTags(), options or ReadOptions()
    texts = TaggedTexts([], [], [])
    for source in resolve(sources):
        suffix = content_suffix(source.path)
        if suffix in (".csv", ".jsonl", ".parquet"):
            raise UserError(
                f"'{source.name}': expected CoNLL columns, one word and its tag per line, but "
                f"{suffix} files are tables of texts; convert it to CoNLL columns"
            )
        is_conllu = suffix == ".conllu"
        read = _read_conllu if is_conllu else _read_columns
        before = len(texts)
        for line, words, tags in read(source, columns, options):
            texts.words.append(words)
            texts.tags.append(tags)
            texts.locations.append(f"'{source.name}', line {line}")
        if len(texts) == before:
            raise UserError(f"'{source.name}' holds no sentence; check how it was written")
    return texts


def _blocks(source: Source, options: ReadOptions) -> Iterator[list[tuple[int, str]]]:
    """The lines between blank ones, with their numbers."""
    block: list[tuple[int, str]] = []
    for number, line in enumerate(read_lines(source.path, options), start=1):
        text = line.rstrip("\r\n")
        if text.strip():
            block.append((number, text))
        elif block:
            yield block
            block = []
    if block:
        yield block


def _read_columns(
    source: Source, columns: ReadTags, options: ReadOptions
) -> Iterator[tuple[int, list[str], list[str]]]:
    wanted = columns.tag_column or "last"
    if wanted != "last" and not is_number(wanted):
        raise UserError(
            f"tag_column: expected a number or last, since '{source.name}' has columns without "
            f"names; got {wanted!r}"
        )
    by_tabs: bool | None = None
    count = 0
    for block in _blocks(source, options):
        if by_tabs is None:
            by_tabs = any("\t" in line for _, line in block)
        words: list[str] = []
        tags: list[str] = []
        for number, line in block:
            cells = line.strip("\t ").split("\t") if by_tabs else line.split()
            where = f"'{source.name}', line {number}"
            if cells[0] == "-DOCSTART-":
                continue
            if not count:
                count = len(cells)
                last = max(columns.word_column, -1 if wanted == "last" else int(wanted))
                if count < 2 or last >= count:
                    raise UserError(
                        f"{where}: expected a word and a tag, in columns {columns.word_column} and "
                        f"{wanted}, but the row has {count} columns separated by "
                        f"{'tabs' if by_tabs else 'spaces'}: {line!r:.60}"
                    )
            if len(cells) != count:
                raise UserError(
                    f"{where}: expected {count} columns, as in the rows before, got {len(cells)}: "
                    f"{line!r:.60}; give every word its tag, and separate sentences by blank lines"
                )
            words.append(cells[columns.word_column].strip())
            tags.append(cells[-1 if wanted == "last" else int(wanted)].strip())
        if words:
            yield block[0][0], words, tags


def _read_conllu(
    source: Source, columns: ReadTags, options: ReadOptions
) -> Iterator[tuple[int, list[str], list[str]]]:
    conllu: Any = require_extra("conllu", "tasks")
    wanted = columns.tag_column or "upos"
    if wanted not in CONLLU_TAGS:
        raise UserError(
            f"tag_column: expected one of {', '.join(CONLLU_TAGS)} for CoNLL-U, got {wanted!r}"
        )
    for block in _blocks(source, options):
        rows = [(number, line) for number, line in block if not line.startswith("#")]
        for number, line in rows:
            if len(cells := line.split("\t")) != len(CONLLU_COLUMNS):
                raise UserError(
                    f"'{source.name}', line {number}: expected the {len(CONLLU_COLUMNS)} columns "
                    f"of CoNLL-U separated by tabs, got {len(cells)}: {line!r:.60}"
                )
        try:
            # Morphology and dependencies are not needed, and parsing them takes most of the time.
            parsed = conllu.parse("\n".join(line for _, line in rows), CONLLU_COLUMNS, _PARSERS)
        except conllu.exceptions.ParseException as error:
            raise UserError(f"'{source.name}', line {block[0][0]}: not CoNLL-U; {error}") from None
        for sentence in parsed:
            tokens = [token for token in sentence if isinstance(token["id"], int)]
            words = [str(token["form"]) for token in tokens]
            tags = [NO_TAG if token[wanted] is None else str(token[wanted]) for token in tokens]
            if words:
                yield block[0][0], words, tags


def _as_is(line: Sequence[str], index: int) -> str:
    return line[index]


_PARSERS = {name: _as_is for name in CONLLU_COLUMNS if name != "id"}


def tag_names(tags: Iterable[Sequence[str]], locations: Sequence[str]) -> tuple[str, ...]:
    """The distinct tags in alphabetical order; missing ones are an error."""
    distinct: set[str] = set()
    words = 0
    for row, some in enumerate(tags):
        distinct.update(some)
        words += len(some)
        if "" in some or NO_TAG in some:
            raise UserError(
                f"{locations[row]}: a word has no tag; tag every word of the training text, or "
                "check --tag-column"
            )
    if len(distinct) < 2:
        raise UserError(
            f"expected at least two different tags, got {sorted(distinct)}; check --tag-column"
        )
    if len(distinct) > max(FEW_TAGS, words // 2):
        raise UserError(
            f"expected several words per tag, but there are {len(distinct):,} different tags of "
            f"{words:,} words, such as {sorted(distinct)[0]!r:.60}; check --tag-column"
        )
    return tuple(sorted(distinct))


def unknown_tags(
    tags: Sequence[Sequence[str]], known: Sequence[str], locations: Sequence[str]
) -> None:
    """Log tags that training did not have: a tagger cannot predict them, so they count as wrong."""
    names = set(known)
    missing: dict[str, str] = {}
    count = 0
    for row, some in enumerate(tags):
        for tag in some:
            if tag not in names:
                count += 1
                missing.setdefault(tag, locations[row])
    if missing:
        shown = [f"{tag!r}, first at {where}" for tag, where in list(missing.items())[:_SHOWN]]
        more = f" and {len(missing) - _SHOWN} more" if len(missing) > _SHOWN else ""
        log.warning(
            "%d words have tags that training did not have, which counts as mistakes: %s%s",
            count, "; ".join(shown), more,
        )  # fmt: skip


def conll_text(words: Sequence[str], tags: Sequence[str]) -> str:
    """One word and its tag per line, and a blank line after the sentence."""
    return "".join(f"{word}\t{tag}\n" for word, tag in zip(words, tags, strict=True)) + "\n"


# Pairs of texts.


@dataclass(frozen=True)
class Pairs(Table):
    """Pairs of texts in the order of the files."""

    first: list[str]
    second: list[str]
    targets: list[str]
    """Labels, or scores as they were written; empty where there are none."""
    locations: list[str]
    target_name: str = LABEL
    """Name of the column of the targets, "label" where columns have no names."""


def read_pairs(
    sources: Sequence[str] | str,
    columns: ReadPairs | None = None,
    options: ReadOptions | None = None,
    *,
    labelled: bool = True,
) -> Pairs:
    """Read pairs from csv, tsv, jsonl or parquet files; `labelled`: with a label or score each.

    A pair with an empty side is kept, and counted in the log; a missing label is an error.
    """
    columns, options = columns or ReadPairs(), options or ReadOptions()
    pairs = Pairs([], [], [], [])
    name = LABEL
    for source in resolve(sources):
        if not source.is_table:
            raise UserError(
                f"'{source.name}': expected csv, tsv, jsonl or parquet with two texts per row"
            )
        chosen, reading, name = _pair_columns(source, columns, options, labelled)
        for row, values in enumerate(read_columns(source, chosen, reading), start=1):
            pairs.first.append(" ".join(values[0].splitlines()))
            pairs.second.append(" ".join(values[1].splitlines()))
            if labelled:
                pairs.targets.append(values[2].strip())
            pairs.locations.append(f"'{source.name}', row {row}")
    missing = [
        where for where, target in zip(pairs.locations, pairs.targets, strict=False) if not target
    ]
    if missing:
        raise UserError(
            f"{len(missing):,} of {len(pairs):,} pairs have no {name}: {missing[0]}; give every "
            "pair one, or leave it out"
        )
    sides = zip(pairs.first, pairs.second, pairs.locations, strict=True)
    empty = [where for one, other, where in sides if not one.strip() or not other.strip()]
    if empty:
        log.warning(
            "pairs with an empty side: %d of %d (first: %s); it is read as a text without words",
            len(empty), len(pairs), empty[0],
        )  # fmt: skip
    return replace(pairs, target_name=name)


def _pair_columns(
    source: Source, columns: ReadPairs, options: ReadOptions, labelled: bool
) -> tuple[list[str], ReadOptions, str]:
    """The columns to read, how to read them, and the name of the target."""
    where, first = f"'{source.name}'", first_row(source, options)
    folded = [name.strip().casefold() for name in first]
    asked = [columns.first_column, columns.second_column, columns.target_column]
    known = next((pair for pair in PAIR_COLUMNS if set(pair) <= set(folded)), None)
    if source.format != "delimited" or options.header != "auto":
        named = source.format != "delimited" or options.header == "yes"
    else:
        named = known is not None or any(one is not None and not is_number(one) for one in asked)
    default_target = next((name for name in (LABEL, SCORE) if name in folded), None)
    defaults = [*(known or (None, None)), default_target] if named else [None, None, None]
    wanted = [one or default for one, default in zip(asked, defaults, strict=True)]
    wanted = wanted if labelled else wanted[:2]
    if None in wanted:
        what = ("first_column", "second_column", "target_column")[wanted.index(None)]
        raise UserError(
            f"{where}: expected columns such as sentence1, sentence2 and label, but the first row "
            f"is {listing(first)}; say which is which with --{what.replace('_', '-')}, by name or "
            "number"
        )
    indices = [find_column(where, str(name), first, named=named) for name in wanted]
    chosen = [first[idx] if named and first.count(first[idx]) == 1 else str(idx) for idx in indices]
    target = first[indices[2]].strip().casefold() if named and labelled else LABEL
    return chosen, replace(options, header="yes" if named else "no"), target


def parse_scores(pairs: Pairs) -> list[float]:
    """Targets as numbers; what is no finite number is an error that names the row."""
    scores: list[float] = []
    wrong: list[str] = []
    for target, where in zip(pairs.targets, pairs.locations, strict=True):
        try:
            score = float(target)
        except ValueError:
            score = math.nan
        if not math.isfinite(score):
            wrong.append(f"{target!r:.40} at {where}")
        scores.append(score)
    if wrong:
        raise UserError(
            f"expected a number as the score of each pair, but {len(wrong):,} of {len(pairs):,} "
            f"are none: {'; '.join(wrong[:_SHOWN])}; correct them, or use --target label"
        )
    return scores
