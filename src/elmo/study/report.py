"""What the comparison shows, in sentences that claim no more than its numbers carry."""

from __future__ import annotations

import json
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, Literal, cast

from elmo.classify.metrics import Estimate, Metrics, wilson
from elmo.config import from_json, to_json
from elmo.errors import require_extra
from elmo.evaluate import Averages
from elmo.files import write_text, written_whole
from elmo.study.formats import (
    GROUPS,
    SIGNIFICANT,
    Block,
    Code,
    Details,
    Figure,
    Paragraph,
    Part,
    Report,
    Section,
    Span,
    Table,
    around,
    best,
    called,
    columns,
    counted,
    duration,
    group_of,
    interval,
    learns_weights,
    listed,
    named,
    of_group,
    one_part,
    p_cell,
    p_value,
    reference,
    score,
    setting,
    shortened,
    speed,
    spread,
    title,
    whole,
    with_weights,
    within,
)
from elmo.study.plots import (
    COLOURS,
    accuracy_figure,
    confusion_figure,
    css_variables,
    curves,
    draws_figure,
    history_sentence,
    in_tags,
    language_model_sentence,
    perplexity_figure,
    samples_figure,
    savings_sentences,
    sweep_sentence,
    sweeps_figure,
    weights_figure,
    with_variables,
)
from elmo.study.results import (
    AmbiguousWord,
    Confusion,
    Draws,
    Example,
    FailedRow,
    Group,
    InContext,
    LanguageModel,
    Named,
    RowResult,
    SamplePoint,
    SeedResult,
    SenseAccuracy,
    Spread,
    StudyResults,
    Sweep,
    write_results,
)

# The numbers behind the figures: weights of layers, draws, curves, settings, perplexities.


def weights_table(rows: Sequence[RowResult]) -> Table:
    """Weights of layers and the scale of their sum, over seeds."""
    layers = max(len(one.layer_weights or ()) for row in rows for one in row.seeds)
    names = [f"layer {layer}" for layer in range(layers)]
    return Table(
        name="weights-table",
        caption="Normalised weights of the layers, and γ, which scales their sum: means over seeds "
        "± their standard deviation.",
        columns=columns("", "seeds", *names, "γ"),
        parts=one_part([_weights_line(row, layers) for row in rows]),
    )


def draws_table(draws: Draws) -> Table:
    """Every draw, the best on the development rows first."""
    ordered = sorted(draws.draws, key=lambda one: -one.development_accuracy)
    names = [f"layer {layer}" for layer in range(len(ordered[0].layer_weights))]
    lines = [
        (
            str(one.seed),
            *map(score, one.layer_weights),
            score(one.development_accuracy),
            score(one.test_accuracy),
        )
        for one in ordered
    ]
    return Table(
        name="draws-table",
        caption="Draws of frozen weights, the best on the development rows first.",
        columns=columns("seed", *names, "development", "test"),
        parts=one_part(lines),
    )


def samples_table(results: StudyResults) -> Table:
    """Accuracy by number of labels, a line a row."""
    found = curves(results)
    sizes = sorted({(one.train_rows, one.per_class or 0) for one in results.samples})
    names = [f"{whole(per_class)} a class" if per_class else "all" for _, per_class in sizes]
    lines = [
        (title(results, name), *(_sample_cell(points, rows) for rows, _ in sizes))
        for name, points in found.items()
    ]
    return Table(
        name="samples-table",
        caption="Test accuracy by number of labels; means over seeds ± their standard deviation.",
        columns=columns("", *names),
        parts=one_part(lines),
    )


def sweeps_table(sweeps: Sequence[Sweep], results: StudyResults) -> Table:
    """What each value of each setting gave."""
    return Table(
        name="sweeps-table",
        caption="Accuracy by value of a setting, all others kept.",
        columns=columns("value", "development", "test", "note"),
        parts=tuple(_sweep_part(sweep, results) for sweep in sweeps),
    )


def history_table(model: LanguageModel) -> Table:
    """Perplexity by epoch and direction."""
    lines = [
        (
            f"{one.epoch:g}",
            f"{one.forward_perplexity:,.2f}",
            f"{one.backward_perplexity:,.2f}",
            f"{one.perplexity:,.2f}",
        )
        for one in model.history
    ]
    return Table(
        name="history",
        caption="Perplexity on held-out text after each epoch.",
        columns=columns("epoch", "forward", "backward", "both"),
        parts=one_part(lines),
    )


def _weights_line(row: RowResult, layers: int) -> tuple[str, ...]:
    weights = [one.layer_weights for one in row.seeds if one.layer_weights]
    gammas = [one.gamma for one in row.seeds if one.gamma is not None]
    cells = [_over_seeds([one[layer] for one in weights]) for layer in range(len(weights[0]))]
    empty = [""] * (layers - len(cells))
    return (row.title, str(len(weights)), *cells, *empty, _over_seeds(gammas) if gammas else "")


def _over_seeds(values: Sequence[float]) -> str:
    return score(fmean(values)) + (f" ± {score(stdev(values))}" if len(values) > 1 else "")


def _sample_cell(points: Sequence[SamplePoint], rows: int) -> str:
    found = [one.test_accuracy for one in points if one.train_rows == rows]
    return spread(found[0], 2 if found[0].deviation else 1) if found else ""


def _sweep_part(sweep: Sweep, results: StudyResults) -> Part:
    return Part(
        title=f"{sweep.setting}, {title(results, sweep.row)}, {whole(sweep.train_rows)} rows",
        group=group_of(results, sweep.row),
        lines=tuple(
            (
                setting(point.value),
                score(point.development_accuracy),
                score(point.test_accuracy),
                point.note or "",
            )
            for point in sweep.points
        ),
    )


# Tables of how a study was done: settings tried and chosen, fingerprints, versions.


def chosen_table(rows: Sequence[RowResult]) -> Table:
    """What was best on the development rows, row by row."""
    lines = [
        (
            row.title,
            described(row.chosen),
            whole(len(row.candidates)),
            score(row.development_accuracy.mean),
        )
        for row in rows
    ]
    return Table(
        name="chosen",
        caption="Settings chosen by the development rows, how many were tried, and development "
        "accuracy with them, mean over seeds.",
        columns=columns("", "chosen", "tried", "development", left=2),
        parts=one_part(lines),
    )


def candidates_table(rows: Sequence[RowResult]) -> Table:
    """Everything that was tried."""
    return Table(
        name="candidates",
        caption="All settings that were tried on the development rows.",
        columns=columns("settings", "development accuracy", "chosen"),
        parts=tuple(_candidates(row) for row in rows if row.candidates),
    )


def facts_table(name: str, caption: str, facts: Sequence[Named]) -> Table:
    """Names and values."""
    return Table(
        name=name,
        caption=caption,
        columns=columns("name", "value", left=2),
        parts=one_part([(one.name, setting(one.value)) for one in facts]),
    )


def machine_table(results: StudyResults, seconds: str) -> Table:
    """Where, when and for how long."""
    about = results.about
    facts = {
        "preset": about.preset,
        "seeds": ", ".join(map(str, about.seeds)),
        "machine": about.machine,
        "finished": f"{about.finished} UTC",
        "work in all": seconds,
    }
    named = [Named(name=name, value=value) for name, value in facts.items()]
    return facts_table("machine", "Where, when and for how long.", named)


def described(settings: Sequence[Named]) -> str:
    """Settings in a line."""
    return ", ".join(f"{one.name} {setting(one.value)}" for one in settings) or "none to choose"


def _candidates(row: RowResult) -> Part:
    return Part(
        title=row.title,
        group=row.group,
        lines=tuple(
            (
                described(one.settings),
                score(one.development_accuracy),
                "chosen" if one.settings == row.chosen else "",
            )
            for one in row.candidates
        ),
    )


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


# The tables of the comparison: all rows, those that failed, and each class on its own.


Split = Literal["train", "test"]
CLASSES_A_TABLE = 4
_ARROWS = {"above": "↑ ", "below": "↓ ", "unclear": ""}


def main_table(results: StudyResults) -> Table:
    """Every row: how good, how sure, how fast, how large."""
    spans = (
        Span(title="", width=6),
        Span(title="time", width=2),
        Span(title="", width=1),
        Span(title="parameters", width=2),
    )
    return Table(
        name="main",
        caption=_main_caption(results),
        columns=columns(
            "", "test accuracy", "95% interval", "macro F1", "train accuracy", "paired p",
            "embedding", "training", "texts/s", "learned", "embedding",
        ),
        parts=by_group(results, lambda row: _main_line(row, results)),
        over=spans,
        dense=True,
    )  # fmt: skip


def failed_table(failed: tuple[FailedRow, ...]) -> Table:
    """What could not be computed, and why."""
    return Table(
        name="failed",
        caption="Rows that could not be computed, with the message of each.",
        columns=columns("row", "message", left=2),
        parts=one_part([(one.title, one.message) for one in failed]),
    )


def class_tables(results: StudyResults, split: Split) -> list[Table]:
    """Precision, recall and F1 of every row, a few classes a table, means of them in the first."""
    places = [None, *range(len(results.about.labels))]
    size = CLASSES_A_TABLE + 1
    return [
        _class_table(results, split, places[first : first + size])
        for first in range(0, len(places), size)
    ]


def by_group(
    results: StudyResults, line: Callable[[RowResult], tuple[str, ...]]
) -> tuple[Part, ...]:
    """A line a row, the groups apart."""
    return tuple(
        Part(title=title, group=group, lines=tuple(line(row) for row in rows))
        for group, title in GROUPS.items()
        if (rows := of_group(results, group))
    )


def _main_caption(results: StudyResults) -> str:
    other = reference(results)
    text = (
        "Means over seeds ± their standard deviation, with Wilson's 95% interval of the mean over "
        f"the {whole(results.about.test_rows)} test rows. "
    )
    if other:
        text += (
            f"Paired p: McNemar's test of the first seed against {other.title}, the static "
            "embedding that was best on the development rows; ↑ above and ↓ below it where p < "
            f"{SIGNIFICANT}. "
        )
    return text + (
        "Time: to make the embedding, and to train one classifier. Texts/s: from words to classes."
    )


def _main_line(row: RowResult, results: StudyResults) -> tuple[str, ...]:
    seeds = len(row.seeds)
    made = "" if row.embedding_seconds is None else duration(row.embedding_seconds)
    return (
        row.title,
        spread(row.test_accuracy, seeds),
        interval(row.test_accuracy.low, row.test_accuracy.high),
        score(row.test_macro_f1.mean),
        score(row.train_accuracy.mean),
        _paired_cell(row, results),
        made,
        duration(fmean(one.training_seconds for one in row.seeds)),
        speed(row.texts_per_second),
        whole(row.parameters),
        whole(row.embedding_parameters) if row.embedding_parameters else "",
    )


def _paired_cell(row: RowResult, results: StudyResults) -> str:
    other = reference(results)
    if row.paired is None or other is None:
        return "reference" if row is other else ""
    return _ARROWS[verdict(row, other)] + p_cell(row.paired.p)


def _class_table(results: StudyResults, split: Split, places: list[int | None]) -> Table:
    labels = results.about.labels
    names = ["mean of classes" if place is None else labels[place] for place in places]
    what = "Training" if split == "train" else "Test"
    return Table(
        name=f"classes-{split}-{places[0] or 0}",
        caption=f"{what} rows: precision (P), recall (R) and F1 of {listed(names)}; means over "
        "seeds.",
        columns=columns("", *["P", "R", "F1"] * len(places)),
        parts=by_group(results, lambda row: (row.title, *_class_cells(row, split, places))),
        over=(Span(title="", width=1), *(Span(title=name, width=3) for name in names)),
        dense=True,
    )


def _class_cells(row: RowResult, split: Split, places: list[int | None]) -> list[str]:
    found = [[_class(_metrics(one, split), place) for one in row.seeds] for place in places]
    return [
        score(fmean(getattr(one, figure) for one in seeds))
        for seeds in found
        for figure in ("precision", "recall", "f1")
    ]


def _class(metrics: Metrics, place: int | None) -> Averages:
    if place is None:
        return metrics.macro
    one = metrics.classes[place]
    return Averages(one.precision, one.recall, one.f1)


def _metrics(seed: SeedResult, split: Split) -> Metrics:
    return seed.train if split == "train" else seed.test


# What the weights of layers show: which weighs most, whether seeds agree, what drawing costs.


NEARLY_EVEN = 0.05
"""Weights that differ from a plain average by no more than this are called nearly even."""


def heaviest(weights: tuple[float, ...]) -> int:
    """The layer that weighs most."""
    return max(range(len(weights)), key=lambda layer: weights[layer])


def weights_sentence(row: RowResult) -> str:
    """Which layer weighs most in a row, and whether that is so for every seed."""
    weights = [one.layer_weights for one in row.seeds if one.layer_weights]
    if not weights:
        return ""
    drawn = "" if learns_weights(row) else ", whose weights are drawn"
    start = f"{called(row.title)}{drawn}: "
    if all(_even(one) for one in weights):
        return f"{start}all weights are within {NEARLY_EVEN} of a plain average."
    layers = Counter(heaviest(one) for one in weights)
    if len(layers) == 1:
        return start + _agreed(next(iter(layers)), weights)
    counts = [f"layer {layer} for {counted(n, 'seed')}" for layer, n in sorted(layers.items())]
    return f"{start}which layer weighs most changes with the seed: {listed(counts)}."


def draws_sentences(draws: Draws) -> list[str]:
    """How far draws of frozen weights lie apart, and where learned weights lie among them."""
    reached = [one.test_accuracy for one in draws.draws]
    if not reached:
        return []
    return [_span(reached, draws.train_rows), _learned_among(draws)]


def rank_p(draws: Draws) -> float:
    """How probable it is that one more draw would come out as high as learned weights did."""
    as_high = sum(one.test_accuracy >= draws.trainable_test_accuracy for one in draws.draws)
    return (as_high + 1) / (len(draws.draws) + 1)


def _span(reached: list[float], rows: int) -> str:
    if len(reached) == 1:
        return (
            f"One draw of frozen weights, trained on {whole(rows)} rows, gives a test accuracy of "
            f"{score(reached[0])}."
        )
    return (
        f"{len(reached)} draws of frozen weights, each trained on {whole(rows)} rows, give test "
        f"accuracies from {score(min(reached))} to {score(max(reached))} (mean "
        f"{score(fmean(reached))}, deviation {score(stdev(reached))})."
    )


def _learned_among(draws: Draws) -> str:
    learned, count = draws.trainable_test_accuracy, len(draws.draws)
    lower = sum(one.test_accuracy < learned for one in draws.draws)
    p = rank_p(draws)
    start = f"Learned weights give {score(learned)} on the same rows; "
    rank = f"{lower} of {counted(count, 'draw')} {'gives' if lower == 1 else 'give'} less"
    if p < SIGNIFICANT:
        return f"{start}{rank}, more than chance explains ({p_value(p)})."
    return f"{start}{rank}, which may be chance ({p_value(p)})."


def _agreed(layer: int, weights: list[tuple[float, ...]]) -> str:
    shares = listed([score(one[layer]) for one in weights])
    if len(weights) == 1:
        return f"layer {layer} weighs most ({shares}); one seed does not tell if that is stable."
    return f"layer {layer} weighs most for each of {len(weights)} seeds ({shares})."


def _even(weights: tuple[float, ...]) -> bool:
    return max(abs(one - 1 / len(weights)) for one in weights) <= NEARLY_EVEN


# What words and mistakes show: which classes are mixed up, whether context tells senses apart.


Side = Literal["above", "below", "unclear"]
_WORD_ANALYSIS_OPENINGS: dict[Side, str] = {
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
    sides = {
        side: [one for one in senses if _side(one) == side] for side in _WORD_ANALYSIS_OPENINGS
    }
    against = [
        f"{opening}: {'; '.join(map(_share, sides[side]))}."
        for side, opening in _WORD_ANALYSIS_OPENINGS.items()
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


# Tables of words and mistakes: which classes are mixed up, what ambiguous words are near to.


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


# The report as one page of HTML that needs nothing but itself.


TEMPLATES = Path(__file__).parent / "templates"
_NAMESPACES = re.compile(r' (?:xmlns(?::xlink)?|version|width|height)="[^"]*"')


def render_html(report: Report) -> str:
    """Fill the template; whatever texts hold stays text."""
    jinja: Any = require_extra("jinja2", "study")
    environment = jinja.Environment(
        loader=jinja.FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=jinja.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("report.html.jinja").render(
        report=report,
        light=css_variables(dark=False),
        dark=css_variables(dark=True),
        inline=inline,
    )


def inline(figure: Figure) -> Any:
    """The drawing as part of a page: as wide as its place, in the colours of its surroundings."""
    markup: Any = require_extra("markupsafe", "study")
    tag, rest = figure.svg.split(">", 1)
    # An <svg> in a page needs no addresses of namespaces.
    tag = _NAMESPACES.sub("", tag)
    return markup.Markup(f'{tag} aria-hidden="true">{in_tags(rest, with_variables)}')


# The report as a PDF on A4, which typst sets.


TEMPLATE = Path(__file__).parent / "templates" / "report.typ"


def render_pdf(report: Report) -> bytes:
    """Set the report; it is handed over as data, so nothing in it can be taken for markup."""
    typst: Any = require_extra("typst", "study")
    matplotlib: Any = require_extra("matplotlib", "study")
    colours = {colour.name: colour.light for colour in COLOURS}
    inputs = {"report": json.dumps(to_json(report)), "colours": json.dumps(colours)}
    # The letters of the figures, wherever this runs.
    fonts = Path(matplotlib.get_data_path()) / "fonts" / "ttf"
    return typst.compile(TEMPLATE, sys_inputs=inputs, font_paths=[fonts])


# Results without the characters that no page can hold: texts of strangers may have any.


_REPLACED = "\N{REPLACEMENT CHARACTER}"


def printable(results: StudyResults) -> StudyResults:
    """The same results, with control characters and halves of characters replaced."""
    return from_json(StudyResults, _cleaned(to_json(results)), "results")


def printable_text(text: str) -> str:
    """The text, each character that XML or UTF-8 cannot hold replaced."""
    if text.isprintable():
        return text
    return "".join(map(_printable_character, text))


def _printable_character(character: str) -> str:
    if character in "\t\n\r":
        return " "
    category = unicodedata.category(character)
    lost = category in ("Cc", "Cs") or ord(character) & 0xFFFE == 0xFFFE
    return _REPLACED if lost else character


def _cleaned(value: Any) -> Any:
    if isinstance(value, str):
        return printable_text(value)
    if isinstance(value, dict):
        return {key: _cleaned(item) for key, item in cast("dict[str, Any]", value).items()}
    if isinstance(value, (list, tuple)):
        return [_cleaned(item) for item in cast("list[Any]", value)]
    return value


# The report, section by section; those that have nothing to show are left out.


def make_report(results: StudyResults) -> Report:
    """Turn what was found into what is shown."""
    results = printable(results)
    sections = (
        Section(name=name, title=title, blocks=tuple(blocks))
        for name, title, make in _SECTIONS
        if (blocks := list(make(results)))
    )
    return Report(
        title=f"ELMo and static embeddings, compared on {data_name(results)}",
        data=data_sentence(results),
        answer=tuple(answer(results)),
        facts=_facts(results),
        sections=tuple(sections),
    )


def _facts(results: StudyResults) -> str:
    about = results.about
    return (
        f"{counted(about.train_rows, 'training row')}, {whole(about.development_rows)} of them to "
        f"choose settings and epochs by; {counted(about.test_rows, 'test row')}; "
        f"{counted(len(about.labels), 'label')}; {counted(len(about.seeds), 'seed')}; preset "
        f"{about.preset}; finished {about.finished} UTC after {duration(about.seconds)} of work"
    )


def _comparison(results: StudyResults) -> Iterable[Block]:
    if not results.rows:
        return
    yield main_table(results)
    yield accuracy_figure(results)
    yield from _paragraphs(
        *comparisons(results),
        corrections(results),
        mixes(results),
        seeds_sentence(results),
        gap_sentence(results),
    )


def _failed(results: StudyResults) -> Iterable[Block]:
    if results.failed:
        yield failed_table(results.failed)


def _classes(results: StudyResults) -> Iterable[Block]:
    if results.rows:
        test, train = (tuple(class_tables(results, split)) for split in ("test", "train"))
        yield Details(title="Test rows, by class", blocks=test)
        yield Details(title="Training rows, by class", blocks=train)


def _confusion(results: StudyResults) -> Iterable[Block]:
    if results.rows:
        yield confusion_figure(results.rows, results.about.labels, "test")
        train = confusion_figure(results.rows, results.about.labels, "train")
        yield Details(title="The same on training rows", blocks=(train,))


def _weights(results: StudyResults) -> Iterable[Block]:
    rows = with_weights(results)
    if rows:
        yield from _paragraphs(*map(weights_sentence, rows))
        yield weights_figure(rows)
        yield weights_table(rows)


def _draws(results: StudyResults) -> Iterable[Block]:
    if results.draws and results.draws.draws:
        yield from _paragraphs(*draws_sentences(results.draws))
        yield draws_figure(results.draws)
        yield Details(title="Every draw", blocks=(draws_table(results.draws),))


def _samples(results: StudyResults) -> Iterable[Block]:
    if results.samples:
        yield from _paragraphs(*savings_sentences(results))
        yield samples_figure(results)
        yield samples_table(results)


def _sweeps(results: StudyResults) -> Iterable[Block]:
    sweeps = [sweep for sweep in results.sweeps if sweep.points]
    if sweeps:
        yield from _paragraphs(*(sweep_sentence(sweep, results) for sweep in sweeps))
        yield sweeps_figure(results)
        yield Details(title="Every value", blocks=(sweeps_table(sweeps, results),))


def _mistakes(results: StudyResults) -> Iterable[Block]:
    rows = [row for row in results.rows if row.confusions]
    if rows:
        yield from _paragraphs(confusions_sentence(rows))
        yield pairs_table(results)
        shows = results.about.shows_texts
        for row in rows:
            yield Details(title=row.title, blocks=(confusions_table(row, shows),))


def _sections_words(results: StudyResults) -> Iterable[Block]:
    for place, word in enumerate(results.words):
        blocks = (*_paragraphs(word_sentence(word)), word_table(word, results))
        yield Details(title=f"“{word.word}”", blocks=blocks, open=place == 0)


def _senses(results: StudyResults) -> Iterable[Block]:
    if results.senses:
        yield from _paragraphs(*senses_sentences(results.senses))
        yield senses_table(results.senses)


def _pretraining(results: StudyResults) -> Iterable[Block]:
    model = results.language_model
    if model:
        yield from _paragraphs(language_model_sentence(model), history_sentence(model))
        if len(model.history) > 1:
            yield perplexity_figure(model)
            yield Details(title="Every epoch", blocks=(history_table(model),))


def _how(results: StudyResults) -> Iterable[Block]:
    about = results.about
    yield from _paragraphs(_METHOD, _own_words(results))
    yield Code(text=about.command)
    yield machine_table(results, duration(about.seconds))
    if results.rows:
        yield chosen_table(results.rows)
    if any(row.candidates for row in results.rows):
        yield Details(title="All settings tried", blocks=(candidates_table(results.rows),))
    lists = (
        ("settings", "All settings of the study", about.settings),
        ("fingerprints", "Fingerprints (SHA-256) of the data and of the biLM", about.fingerprints),
        ("versions", "Versions", about.versions),
    )
    for name, heading, facts in lists:
        if facts:
            yield Details(title=heading, blocks=(facts_table(name, f"{heading}.", facts),))


def _own_words(results: StudyResults) -> str:
    sizes = {one.name: one.value for one in results.about.settings}
    if not sizes.get("own_words"):
        return ""
    begin = sizes.get("word_vectors")
    return (
        f"Beside each embedding, the classifier learns word vectors of its own, "
        f"{setting(sizes['own_words'])} numbers each"
        + (f", which begin as those of the file {Path(str(begin)).name}." if begin else ".")
    )


def _paragraphs(*sentences: str) -> Iterable[Paragraph]:
    return (Paragraph(text=sentence) for sentence in sentences if sentence)


_METHOD = (
    "Every embedding has the same kind of classifier above it and the same rows to learn from. "
    "Settings and epochs are chosen by development rows, taken from the training rows; the first "
    "settings of a network stay unless others are better by more than a standard error. The test "
    "rows choose nothing. Test rows are counted from 0."
)
_SECTIONS: tuple[tuple[str, str, Callable[[StudyResults], Iterable[Block]]], ...] = (
    ("comparison", "The comparison", _comparison),
    ("failed", "Rows that failed", _failed),
    ("classes", "Precision, recall and F1 by class", _classes),
    ("confusion", "What is taken for what", _confusion),
    ("weights", "The weights of the layers", _weights),
    ("draws", "How much depends on the frozen draw", _draws),
    ("samples", "Fewer labels", _samples),
    ("sweeps", "Settings varied", _sweeps),
    ("mistakes", "Where each embedding errs", _mistakes),
    ("words", "Words of several senses", _sections_words),
    ("senses", "Senses told apart", _senses),
    ("pretraining", "Pre-training", _pretraining),
    ("how", "How it was done", _how),
)


# The files of a report: all figures as JSON, a page to read, a PDF to print.


PAGE = "report.html"
PAPER = "report.pdf"


def write_report(results: StudyResults, folder: Path) -> None:
    """Write results.json, report.html and report.pdf."""
    # The figures first: whatever happens to the drawings, these are not lost.
    write_results(results, folder)
    report = make_report(results)
    write_text(folder / PAGE, render_html(report))
    with written_whole(folder / PAPER) as beside:
        beside.write_bytes(render_pdf(report))
