"""What the comparison shows, in sentences that claim no more than its numbers carry."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Literal

from elmo.study.report.formats import (
    SIGNIFICANT,
    called,
    counted,
    listed,
    p_value,
    score,
    whole,
    within,
)
from elmo.study.report.found_rows import best, named, of_group, reference
from elmo.study.results import Group, RowResult, Spread, StudyResults

Verdict = Literal["above", "below", "unclear"]
MIXES = ("frozen", "trainable", "function")
_BEST_OF: dict[Group, str] = {
    "control": "best of the controls",
    "static": "best of the static embeddings",
    "elmo": "best of the ELMo rows",
}
_DATA = {"ag_news": "AG News", "generated": "the generated corpus that comes with elmo"}


def data_name(results: StudyResults) -> str:
    """What the data is called in a sentence."""
    return _DATA.get(results.about.data, results.about.data)


def data_sentence(results: StudyResults) -> str:
    """What ran, and what that can tell."""
    text = f"This study ran on {data_name(results)}."
    if results.about.data != "generated":
        return text
    return (
        f"{text} Its texts are made by a program, not by people: these figures say that everything "
        "works, not how embeddings fare on real text."
    )


def answer(results: StudyResults) -> list[str]:
    """The two or three sentences for those who read no further."""
    if not results.rows:
        return ["No row of the comparison could be computed."]
    sentences = [headline(results), tally(results), against_controls(results)]
    return [sentence for sentence in sentences if sentence]


def verdict(row: RowResult, other: RowResult) -> Verdict:
    """Whether a row differs from the one it is compared with, and to which side."""
    paired = row.paired
    if paired is None or paired.p >= SIGNIFICANT:
        return "unclear"
    first_seed = paired.only_this - paired.only_other
    all_seeds = row.test_accuracy.mean - other.test_accuracy.mean
    if first_seed > 0 and all_seeds > 0:
        return "above"
    return "below" if first_seed < 0 and all_seeds < 0 else "unclear"


def headline(results: StudyResults) -> str:
    """The best ELMo row against the best static one, both chosen by development rows."""
    other = reference(results)
    elmo = best([row for row in of_group(results, "elmo") if row.paired])
    if other is None or elmo is None or elmo.paired is None:
        return _alone(results)
    start = (
        f"{_achieves(elmo, results)} The best static embedding, {called(other.title)}, gets "
        f"{score(other.test_accuracy.mean)}: "
    )
    found = verdict(elmo, other)
    if found == "unclear":
        return f"{start}{_no_difference(elmo, results)}."
    return f"{start}ELMo is {found} it by more than chance explains ({p_value(elmo.paired.p)})."


def tally(results: StudyResults) -> str:
    """How many ELMo rows are above the best static one."""
    other = reference(results)
    rows = [row for row in of_group(results, "elmo") if row.paired]
    if other is None or len(rows) < 2:
        return ""
    found = Counter(verdict(row, other) for row in rows)
    counts = [
        f"{found[side]} {one if found[side] == 1 else several}"
        for side, (one, several) in _COUNTED.items()
        if found[side]
    ]
    return f"Of {len(rows)} ELMo rows, {listed(counts)} (each tested for itself)."


def against_controls(results: StudyResults) -> str:
    """The best ELMo row beside the best row that has no embedding, by their intervals."""
    elmo, control = best(of_group(results, "elmo")), best(of_group(results, "control"))
    if elmo is None or control is None:
        return ""
    text = f"Without any pre-trained embedding, {called(control.title)} gets {_reached(control)}"
    if not apart(elmo.test_accuracy, control.test_accuracy):
        return f"{text}, an interval that overlaps that of {called(elmo.title)}."
    side = "below" if control.test_accuracy.mean < elmo.test_accuracy.mean else "above"
    return f"{text}, an interval {side} that of {called(elmo.title)}."


def comparisons(results: StudyResults) -> list[str]:
    """Which rows are above, which below the reference, and which cannot be told from it."""
    other = reference(results)
    if other is None:
        return []
    rows = [row for row in results.rows if row.paired]
    names = called(other.title), whole(results.about.test_rows)
    return [
        f"{opening.format(*names)}: {_with_p(found)}."
        for side, opening in _OPENINGS.items()
        if (found := [row for row in rows if verdict(row, other) == side])
    ]


def corrections(results: StudyResults) -> str:
    """How far so many tests can be trusted together."""
    tests = sum(row.paired is not None for row in results.rows)
    if tests < 2:
        return ""
    return (
        f"These are {tests} tests, each for itself: were there no differences at all, about "
        f"{tests * SIGNIFICANT:.1f} of them would show p < {SIGNIFICANT} by chance. To be sure of "
        f"all of them at once, count only those below {SIGNIFICANT / tests:.2g}."
    )


def mixes(results: StudyResults) -> str:
    """Frozen, trainable and learned mixes beside each other, by their intervals."""
    rows = [row for name in MIXES if (row := named(results, name))]
    if len(rows) < 2:
        return ""
    ordered = sorted(rows, key=lambda row: row.test_accuracy.mean)
    text = f"Ways to mix layers: {'; '.join(f'{called(r.title)} {_reached(r)}' for r in rows)}"
    low, high = ordered[0], ordered[-1]
    if not apart(low.test_accuracy, high.test_accuracy):
        return f"{text}. All these intervals overlap."
    return f"{text}. Those of {called(low.title)} and {called(high.title)} do not overlap."


def seeds_sentence(results: StudyResults) -> str:
    """How much another seed changes."""
    several = [row for row in results.rows if len(row.seeds) > 1]
    if not several:
        return "Every row has one seed: how much another one would change is not known."
    widest = max(several, key=lambda row: row.test_accuracy.deviation)
    text = (
        f"Between seeds, test accuracy deviates by at most "
        f"{score(widest.test_accuracy.deviation)}, in {called(widest.title)}."
    )
    single = [called(row.title) for row in results.rows if len(row.seeds) == 1]
    return f"{text} One seed only: {listed(single)}." if single else text


def gap_sentence(results: StudyResults) -> str:
    """Where the training rows were learned by heart most."""
    rows = [row for row in results.rows if _gap(row) > 0]
    if not rows:
        return ""
    widest = max(rows, key=_gap)
    return (
        f"Train accuracy is furthest from test accuracy in {called(widest.title)}: "
        f"{score(widest.train_accuracy.mean)} against {score(widest.test_accuracy.mean)}."
    )


def apart(first: Spread, second: Spread) -> bool:
    """Whether two intervals have nothing in common."""
    return first.high < second.low or second.high < first.low


def _alone(results: StudyResults) -> str:
    row = best(results.rows)
    assert row is not None
    return f"{_achieves(row, results)} No static embedding was there to compare ELMo with."


def _achieves(row: RowResult, results: StudyResults) -> str:
    return (
        f"{called(row.title)}, {_BEST_OF[row.group]} on the development rows, gets "
        f"{score(row.test_accuracy.mean)} of the {counted(results.about.test_rows, 'test row')} "
        f"right (95% interval {score(row.test_accuracy.low)} to {score(row.test_accuracy.high)})."
    )


def _reached(row: RowResult) -> str:
    return within(row.test_accuracy)


def _no_difference(row: RowResult, results: StudyResults) -> str:
    assert row.paired is not None
    text = f"no difference that {whole(results.about.test_rows)} rows can show"
    if row.paired.p < SIGNIFICANT:
        text = f"the seeds point to different sides, so {text}"
    return f"{text} ({p_value(row.paired.p)})"


def _with_p(rows: Sequence[RowResult]) -> str:
    return "; ".join(f"{called(row.title)}, {p_value(row.paired.p)}" for row in rows if row.paired)


def _gap(row: RowResult) -> float:
    return row.train_accuracy.mean - row.test_accuracy.mean


_COUNTED: dict[Verdict, tuple[str, str]] = {
    "above": ("is above it", "are above it"),
    "below": ("is below it", "are below it"),
    "unclear": ("shows no difference", "show no difference"),
}
_OPENINGS: dict[Verdict, str] = {
    "above": "Above {0}",
    "below": "Below {0}",
    "unclear": "No difference from {0} that {1} rows can show",
}
