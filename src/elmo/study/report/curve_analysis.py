"""What curves show: how far few labels go, what settings change, how the language model learned."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from elmo.classify.intervals import wilson
from elmo.study.report.formats import called, counted, duration, listed, score, setting, whole
from elmo.study.report.found_rows import best, named, title
from elmo.study.results import LanguageModel, RowResult, SamplePoint, StudyResults, Sweep


@dataclass(frozen=True)
class Saving:
    """Few labels with which one row does what another does with many."""

    few: SamplePoint
    many: SamplePoint


def curve(results: StudyResults, name: str) -> list[SamplePoint]:
    """The points of a row, from few labels to all."""
    return sorted((p for p in results.samples if p.row == name), key=lambda point: point.train_rows)


def curves(results: StudyResults) -> dict[str, list[SamplePoint]]:
    """The points of every row that has some, in their order."""
    names = dict.fromkeys(point.row for point in results.samples)
    return {name: curve(results, name) for name in names}


def savings_sentences(results: StudyResults) -> list[str]:
    """How many labels ELMo saves against each row that is not ELMo."""
    rows = [row for name in curves(results) if (row := named(results, name))]
    elmo = best([row for row in rows if row.group == "elmo"])
    if elmo is None:
        return []
    return [_saving_sentence(elmo, row, results) for row in rows if row.group != "elmo"]


def savings(fewer: Sequence[SamplePoint], more: Sequence[SamplePoint]) -> list[Saving]:
    """For each size of the other row, the smallest of the one that does no worse, if smaller."""
    return [Saving(few[0], many) for many in more if (few := _enough(fewer, many))]


def sweep_sentence(sweep: Sweep, results: StudyResults) -> str:
    """Which value of a setting was best, and whether the test rows can tell the values apart."""
    points = sweep.points
    chosen = max(points, key=lambda point: point.development_accuracy)
    reached = [point.test_accuracy for point in points]
    start = (
        f"{sweep.setting} of {called(title(results, sweep.row))}: {setting(chosen.value)} was "
        f"best on the development rows ({score(chosen.development_accuracy)}; test "
        f"{score(chosen.test_accuracy)})"
    )
    if len(points) == 1:
        return f"{start}, the only value there is."
    low, high = min(reached), max(reached)
    if _separate(low, high, results.about.test_rows):
        return f"{start}; test accuracies go from {score(low)} to {score(high)}."
    rows = whole(results.about.test_rows)
    return f"{start}; the values make no difference in test accuracy that {rows} rows can show."


def language_model_sentence(model: LanguageModel) -> str:
    """What the biLM is, and what it reached."""
    text = (
        f"The biLM ({model.source}) has {counted(model.layers, 'LSTM layer')} of "
        f"{whole(model.width)} numbers a direction, {counted(model.parameters, 'parameter')} and "
        f"a vocabulary of {counted(model.vocabulary, 'word')}."
    )
    if model.perplexity is not None:
        text += f" Its perplexity on held-out text is {model.perplexity:,.2f}."
    if model.accuracy is not None:
        text += f" Of the held-out words, it predicts {score(model.accuracy)} first."
    return text if model.seconds is None else f"{text} Training took {duration(model.seconds)}."


def history_sentence(model: LanguageModel) -> str:
    """How perplexity went, epoch by epoch."""
    if len(model.history) < 2:
        return ""
    values = [epoch.perplexity for epoch in model.history]
    lowest = min(range(len(values)), key=lambda place: values[place])
    epoch = setting(float(model.history[lowest].epoch))
    if lowest == len(values) - 1:
        return f"Perplexity was lowest ({values[-1]:,.2f}) at the end: more epochs were not tried."
    return f"Perplexity was lowest ({values[lowest]:,.2f}) after epoch {epoch}, then rose."


def _saving_sentence(elmo: RowResult, other: RowResult, results: StudyResults) -> str:
    found = savings(curve(results, elmo.name), curve(results, other.name))
    ours, theirs = called(elmo.title), called(other.title)
    if not found:
        return f"At no size tried does {ours} do with fewer labels what {theirs} does with more."
    pairs = [f"{_labels(one.few)} instead of {_labels(one.many)}" for one in found]
    return (
        f"{ours} gets at least as many test rows right as {theirs} (mean over seeds) with fewer "
        f"labels: {listed(pairs)}."
    )


def _enough(points: Sequence[SamplePoint], many: SamplePoint) -> list[SamplePoint]:
    return [
        few
        for few in points
        if few.train_rows < many.train_rows and few.test_accuracy.mean >= many.test_accuracy.mean
    ]


def _labels(point: SamplePoint) -> str:
    if point.per_class is None:
        return f"all {whole(point.train_rows)}"
    return f"{whole(point.per_class)} a class"


def _separate(low: float, high: float, rows: int) -> bool:
    lower, upper = wilson(round(low * rows), rows), wilson(round(high * rows), rows)
    return lower.high < upper.low
