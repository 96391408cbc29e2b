"""From outcomes to the rows of the table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from elmo.study.choices import Choice, named
from elmo.study.comparison import Row
from elmo.study.data import StudyData
from elmo.study.outcome import Outcome
from elmo.study.results import Confusion, Example, Paired, RowResult, SeedResult
from elmo.study.statistics import paired, spread

CONFUSIONS, EXAMPLES = 3, 3


@dataclass(frozen=True)
class EmbeddingFacts:
    """What an embedding took, and how large it is."""

    parameters: int = 0
    seconds: float | None = None
    texts_per_second: float | None = None
    """How fast it is read, where that is not part of a classifier's own speed."""


def best_static(rows: Sequence[Row], outcomes: Mapping[str, Sequence[Outcome]]) -> Row | None:
    """The static row with the best development accuracy: what the others are compared with."""
    static = [row for row in rows if row.is_static and outcomes.get(row.name)]
    return max(static, key=lambda row: _development(outcomes[row.name]), default=None)


def row_result(
    row: Row,
    outcomes: Sequence[Outcome],
    choice: Choice | None,
    facts: EmbeddingFacts,
    data: StudyData,
    seeds: Sequence[int],
    other: Paired | None,
    *,
    shows_texts: bool,
) -> RowResult:
    """One row, all its seeds."""
    tests = [one.test for one in outcomes]
    trains = [one.train for one in outcomes if one.train is not None]
    count, learned = len(data.test), data.train_count
    return RowResult(
        name=row.name,
        title=row.title,
        group=row.group,
        chosen=() if choice is None else named(choice.best),
        candidates=() if choice is None else choice.candidates,
        seeds=tuple(_seed(one, seed) for one, seed in zip(outcomes, seeds, strict=False)),
        train_accuracy=spread([one.accuracy.value for one in trains], learned),
        test_accuracy=spread([one.accuracy.value for one in tests], count),
        test_macro_f1=spread([one.macro.f1 for one in tests], count),
        development_accuracy=spread(
            [one.development_accuracy for one in outcomes], len(data.split.development)
        ),
        paired=other,
        parameters=outcomes[0].parameters,
        embedding_parameters=facts.parameters,
        embedding_seconds=facts.seconds,
        texts_per_second=_pace([one.texts_per_second for one in outcomes], facts),
        confusions=_confusions(outcomes[0], data, shows_texts),
    )


def compared(
    row: Row, outcomes: Mapping[str, Sequence[Outcome]], other: Row | None, data: StudyData
) -> Paired | None:
    """The paired test of a row, by its first seed, against another row."""
    if other is None or row.name == other.name:
        return None
    return paired(data, outcomes[row.name][0], outcomes[other.name][0], other.name)


def _development(outcomes: Sequence[Outcome]) -> float:
    return sum(one.development_accuracy for one in outcomes) / len(outcomes)


def _seed(outcome: Outcome, seed: int) -> SeedResult:
    assert outcome.train is not None
    return SeedResult(
        seed=seed,
        development_accuracy=outcome.development_accuracy,
        train=outcome.train,
        test=outcome.test,
        training_seconds=outcome.training_seconds,
        layer_weights=outcome.layer_weights,
        gamma=outcome.gamma,
    )


def _pace(paces: Sequence[float], facts: EmbeddingFacts) -> float:
    """Texts a second from words to classes: first the embedding, then the classifier."""
    classifier = sum(paces) / len(paces)
    if facts.texts_per_second is None:
        return classifier
    return 1 / (1 / classifier + 1 / facts.texts_per_second)


def _confusions(outcome: Outcome, data: StudyData, shows_texts: bool) -> tuple[Confusion, ...]:
    """What is most often taken for what, with the first test rows where it is."""
    gold, predicted = data.classes[data.test], np.array(outcome.predictions)
    matrix = np.array(outcome.test.confusion)
    np.fill_diagonal(matrix, 0)
    most: list[int] = np.argsort(-matrix.ravel(), kind="stable")[:CONFUSIONS].tolist()
    found: list[Confusion] = []
    for cell in most:
        label, taken = divmod(cell, len(data.labels))
        if not matrix[label, taken]:
            continue
        rows: list[int] = np.flatnonzero((gold == label) & (predicted == taken)).tolist()
        examples = tuple(_example(data, row, shows_texts) for row in rows[:EXAMPLES])
        found.append(
            Confusion(
                label=data.labels[label],
                predicted=data.labels[taken],
                count=int(matrix[label, taken]),
                examples=examples,
            )
        )
    return tuple(found)


def _example(data: StudyData, row: int, shows_texts: bool) -> Example:
    text = data.texts[data.train_count + row]
    return Example(row=row, text=text if shows_texts else None)
