"""What words and mistakes show: which classes are mixed up, whether context tells senses apart."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Literal

from elmo.classify.intervals import Estimate, wilson
from elmo.study.report.formats import called, counted, listed, score
from elmo.study.results import AmbiguousWord, InContext, RowResult, SenseAccuracy

Side = Literal["above", "below", "unclear"]
_OPENINGS: dict[Side, str] = {
    "above": "Above chance",
    "below": "Below chance",
    "unclear": "Not to be told from chance",
}


def confusions_sentence(rows: Sequence[RowResult]) -> str:
    """Which mistake is the most frequent one of how many rows."""
    first = [row.confusions[0] for row in rows if row.confusions]
    if not first:
        return ""
    pairs = Counter((one.label, one.predicted) for one in first)
    (label, predicted), times = pairs.most_common(1)[0]
    return (
        f"The most frequent mistake of {times} of {counted(len(first), 'row')} is "
        f"{label} taken for {predicted}."
    )


def word_sentence(word: AmbiguousWord) -> str:
    """How many words the lists of a word share."""
    static = {one.word.lower() for one in word.static}
    lists = [_words(one) for one in word.contexts]
    if not static or not lists:
        return ""
    shared = [f"{len(static & one)} of {len(one)}" for one in lists]
    text = f"Of the words near it in context, {listed(shared)} are in the one static list"
    if len(lists) < 2:
        return f"{text}."
    common = set[str].intersection(*lists)
    return f"{text}; {counted(len(common), 'word')} {_is(len(common))} in all lists in context."


def senses_sentences(senses: Sequence[SenseAccuracy]) -> list[str]:
    """Whether vectors tell senses apart at all, and which do so best."""
    sides = {side: [one for one in senses if _side(one) == side] for side in _OPENINGS}
    against = [
        f"{opening}: {'; '.join(map(_share, sides[side]))}."
        for side, opening in _OPENINGS.items()
        if sides[side]
    ]
    return [*against, *_highest(senses)]


def sense_interval(sense: SenseAccuracy) -> Estimate:
    """Wilson's interval of a share of occurrences."""
    return wilson(round(sense.accuracy * sense.occurrences), sense.occurrences)


def _side(sense: SenseAccuracy) -> Side:
    sure = sense_interval(sense)
    if sure.low > sense.chance:
        return "above"
    return "below" if sure.high < sense.chance else "unclear"


def _share(sense: SenseAccuracy) -> str:
    return f"{called(sense.embedding)} {score(sense.accuracy)} (chance {score(sense.chance)})"


def _highest(senses: Sequence[SenseAccuracy]) -> list[str]:
    if len(senses) < 2:
        return []
    first = max(senses, key=lambda one: one.accuracy)
    low = sense_interval(first).low
    lower = [one for one in senses if one is not first and sense_interval(one).high < low]
    if not lower:
        return [f"The interval of the highest, {called(first.embedding)}, overlaps all others."]
    names = listed([called(one.embedding) for one in lower])
    return [f"The interval of {called(first.embedding)} lies above those of {names}."]


def _words(context: InContext) -> set[str]:
    return {one.word.lower() for one in context.neighbours}


def _is(count: int) -> str:
    return "is" if count == 1 else "are"
