"""Tables of words and mistakes: which classes are mixed up, what ambiguous words are near to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from elmo.study.report.blocks import Part, Table, columns, one_part
from elmo.study.report.formats import around, interval, score, shortened, whole
from elmo.study.report.found_rows import title
from elmo.study.report.tables import by_group
from elmo.study.report.word_analysis import sense_interval
from elmo.study.results import (
    AmbiguousWord,
    Confusion,
    Example,
    InContext,
    RowResult,
    SenseAccuracy,
    StudyResults,
)

MOST_PAIRS = 6
MOST_CONFUSIONS = 3
MOST_EXAMPLES = 2
LONGEST_TEXT = 125
LONGEST_CONTEXT = 110
LONGEST_SNIPPET = 90


def pairs_table(results: StudyResults) -> Table:
    """How often each row makes the mistakes that embeddings make most."""
    pairs = _frequent_pairs(results)
    names = [f"{label} → {predicted}" for label, predicted in pairs]
    return Table(
        name="pairs",
        caption="Test rows of one class (left of the arrow) taken for another (right of it) by "
        "the first seed; the mistakes that are most frequent over all embeddings.",
        columns=columns("", *names),
        parts=by_group(results, lambda row: (row.title, *_pair_cells(row, pairs, results))),
        dense=True,
    )


def confusions_table(row: RowResult, shows_texts: bool) -> Table:
    """The most frequent mistakes of a row, with examples."""
    found = row.confusions[:MOST_CONFUSIONS]
    if shows_texts:
        parts = tuple(_text_part(one) for one in found)
        return Table(
            name=f"mistakes-{row.name}",
            caption=f"{row.title}: the most frequent mistakes, with test rows.",
            columns=columns("row", "text", left=2),
            parts=parts,
        )
    lines = [
        (one.label, one.predicted, whole(one.count), _row_numbers(one.examples)) for one in found
    ]
    return Table(
        name=f"mistakes-{row.name}",
        caption=f"{row.title}: the most frequent mistakes, with numbers of test rows from 0.",
        columns=columns("label", "taken for", "times", "such as rows", left=2),
        parts=one_part(lines),
    )


def word_table(word: AmbiguousWord, results: StudyResults) -> Table:
    """The static list of a word beside its lists in context, the nearest first."""
    contexts = [_context_title(one, word.word) for one in word.contexts]
    longest = max([len(word.static), *(len(one.neighbours) for one in word.contexts)])
    lines = [
        (
            str(place + 1),
            _static_cell(word, place),
            *(_context_cell(one, place) for one in word.contexts),
        )
        for place in range(longest)
    ]
    static = f"always ({title(results, word.static_row)})"
    return Table(
        name=f"word-{results.words.index(word)}",
        caption=f"“{word.word}”: its nearest words, with their cosine.",
        columns=columns("", static, *contexts, left=2 + len(contexts)),
        parts=one_part(lines),
    )


def senses_table(senses: Sequence[SenseAccuracy]) -> Table:
    """How often the nearest occurrence has the same sense."""
    lines: list[tuple[str, ...]] = []
    for one in senses:
        sure = sense_interval(one)
        share = (score(one.accuracy), interval(sure.low, sure.high), score(one.chance))
        lines.append((one.embedding, *share, whole(one.occurrences)))
    return Table(
        name="senses",
        caption="How often the nearest occurrence of an ambiguous word has the same sense, with "
        "Wilson's 95% interval.",
        columns=columns("", "accuracy", "95% interval", "chance", "occurrences"),
        parts=one_part(lines),
    )


def _frequent_pairs(results: StudyResults) -> list[tuple[str, str]]:
    counts: Counter[tuple[str, str]] = Counter()
    labels = results.about.labels
    rows = [row for row in results.rows if row.group != "control"] or results.rows
    for row in rows:
        for label, line in zip(labels, row.seeds[0].test.confusion, strict=True):
            others = zip(labels, line, strict=True)
            counts.update({(label, other): n for other, n in others if other != label})
    return [pair for pair, count in counts.most_common(MOST_PAIRS) if count]


def _pair_cells(
    row: RowResult, pairs: Sequence[tuple[str, str]], results: StudyResults
) -> list[str]:
    place = {label: number for number, label in enumerate(results.about.labels)}
    confusion = row.seeds[0].test.confusion
    return [whole(confusion[place[label]][place[predicted]]) for label, predicted in pairs]


def _text_part(confusion: Confusion) -> Part:
    times = whole(confusion.count)
    return Part(
        title=f"{confusion.label} taken for {confusion.predicted}: {times}",
        lines=tuple(
            (whole(one.row), shortened(one.text or "", LONGEST_TEXT))
            for one in confusion.examples[:MOST_EXAMPLES]
        ),
    )


def _row_numbers(examples: Sequence[Example]) -> str:
    return ", ".join(whole(one.row) for one in examples)


def _context_title(context: InContext, word: str) -> str:
    if context.text is None:
        return f"in test row {whole(context.row)}"
    return f"in “{around(context.text, word, LONGEST_CONTEXT)}”"


def _static_cell(word: AmbiguousWord, place: int) -> str:
    if place >= len(word.static):
        return ""
    return f"{word.static[place].word} {word.static[place].similarity:.2f}"


def _context_cell(context: InContext, place: int) -> str:
    if place >= len(context.neighbours):
        return ""
    near = context.neighbours[place]
    if near.text is None:
        return f"{near.word} {near.similarity:.2f} · training row {whole(near.row)}"
    return f"{near.word} {near.similarity:.2f} · {around(near.text, near.word, LONGEST_SNIPPET)}"
