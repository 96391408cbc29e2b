"""Each row's settings, chosen on development rows: the same number of tries for every row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from elmo.classify.config import ClassifierConfig
from elmo.classify.intervals import standard_error
from elmo.study.comparison import Row
from elmo.study.controls import STRENGTHS, majority, tfidf
from elmo.study.jobs import Failure, Job
from elmo.study.outcome import Outcome
from elmo.study.results import Candidate, Named
from elmo.study.training import Training
from elmo.study.workbench import SVM_WORK, VERSION, Workbench


@dataclass(frozen=True)
class NetworkSettings:
    """What is tried of the classifier's settings."""

    learning_rate: float = 3e-3
    dropout: float = 0.2

    def on(self, config: ClassifierConfig) -> ClassifierConfig:
        """A classifier with these settings."""
        return replace(
            config,
            network=replace(config.network, dropout=self.dropout),
            learning=replace(config.learning, learning_rate=self.learning_rate),
        )


@dataclass(frozen=True)
class SvmSettings:
    """What is tried of the linear machine's settings."""

    strength: float = 0.2


Settings = NetworkSettings | SvmSettings
NETWORKS = (NetworkSettings(), NetworkSettings(2e-3), NetworkSettings(3e-3, 0.3))
"""Near each other: what a part of the rows likes best must not be far off for all of them."""
SVMS = tuple(SvmSettings(strength) for strength in STRENGTHS)


@dataclass(frozen=True)
class Choice:
    """The best settings of a row, and all that were tried."""

    best: Settings
    candidates: tuple[Candidate, ...]


def tries(row: Row) -> tuple[Settings, ...]:
    """What is tried for a row."""
    if row.kind == "tfidf":
        return SVMS
    return NETWORKS if row.kind == "network" else ()


def tuning_jobs(bench: Workbench, rows: Sequence[Row]) -> list[Job]:
    """A training on a part of the rows for each try."""
    return [
        _tuning_job(bench, row, number, settings)
        for row in rows
        for number, settings in enumerate(tries(row))
    ]


def choose(row: Row, outcomes: Mapping[str, Any], development_rows: int) -> Choice | None:
    """The settings with the best development accuracy, of equals the first; none if all failed.

    A network's are tried on a part of the rows, and the first ones stay unless others are better by
    more than a standard error: what has less of a lead there has been worse on all rows.
    """
    tried = [
        (settings, outcomes[_tuning_name(row, number)])
        for number, settings in enumerate(tries(row))
    ]
    good = [(settings, one) for settings, one in tried if not isinstance(one, Failure)]
    if not good:
        return None
    highest = max(one.development_accuracy for _, one in good)
    margin = standard_error(highest, development_rows) if row.kind == "network" else 0.0
    best = next(settings for settings, one in good if one.development_accuracy >= highest - margin)
    candidates = tuple(
        Candidate(settings=named(settings), development_accuracy=one.development_accuracy)
        for settings, one in good
    )
    return Choice(best, candidates)


def row_jobs(bench: Workbench, row: Row, choice: Choice | None) -> list[Job]:
    """The trainings of a row, one a seed; what has no chance in it is done once."""
    if row.kind == "network":
        return [_network_job(bench, row, choice, seed) for seed in bench.config.seeds]
    return [_control_job(bench, row, choice)]


def row_training(bench: Workbench, row: Row, choice: Choice | None, seed: int) -> Training:
    """How a row is trained with a seed; frozen weights are drawn anew by each."""
    config = bench.classifier(replace(row.mix, mix_seed=seed), seed)
    if choice is not None and isinstance(choice.best, NetworkSettings):
        config = choice.best.on(config)
    return bench.training(config)


def svm_job(
    bench: Workbench,
    name: str,
    row: str,
    settings: SvmSettings,
    per_class: int | None = None,
    seed: int = 0,
) -> Job:
    """The linear machine on all rows, or on so few labels a class."""
    data = bench.data
    texts = data.train_count if per_class is None else per_class * len(data.labels)
    return Job(
        name=name,
        row=row,
        inputs={
            "version": VERSION,
            "data": data.fingerprint,
            "strength": settings.strength,
            "per_class": per_class,
            "seed": seed,
        },
        kind=Outcome,
        run=lambda on_share: tfidf(data, settings.strength, per_class, seed),
        weight=SVM_WORK * texts,
    )


def named(settings: object) -> tuple[Named, ...]:
    """Settings by name."""
    return tuple(Named(name=name, value=value) for name, value in vars(settings).items())


def _tuning_name(row: Row, number: int) -> str:
    return f"tuning-{row.name}-{number}"


def _tuning_job(bench: Workbench, row: Row, number: int, settings: Settings) -> Job:
    name = _tuning_name(row, number)
    if isinstance(settings, SvmSettings):
        return svm_job(bench, name, row.name, settings)
    first = bench.config.seeds[0]
    epochs = bench.config.tuning_epochs
    config = settings.on(bench.classifier(replace(row.mix, mix_seed=first), first))
    config = replace(config, learning=replace(config.learning, epochs=epochs))
    training = bench.training(config, rows=bench.config.tuning_rows, measures_train=False)
    work = min(bench.config.tuning_rows, bench.data.train_count) * epochs
    return bench.job(name, row.name, row.embedding, training, work=work)


def _network_job(bench: Workbench, row: Row, choice: Choice | None, seed: int) -> Job:
    training = row_training(bench, row, choice, seed)
    work = bench.data.train_count * bench.config.epochs
    return bench.job(f"row-{row.name}-seed{seed}", row.name, row.embedding, training, work=work)


def _control_job(bench: Workbench, row: Row, choice: Choice | None) -> Job:
    if row.kind == "majority":
        return Job(
            name="row-majority",
            row=row.name,
            inputs={"version": VERSION, "data": bench.data.fingerprint},
            kind=Outcome,
            run=lambda on_share: majority(bench.data),
            weight=1.0,
        )
    best = SvmSettings() if choice is None else choice.best
    assert isinstance(best, SvmSettings)
    return svm_job(bench, "row-tfidf", row.name, best)
