"""Beyond the table: frozen draws, accuracy against the number of labels, sweeps of settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from elmo.contextual.mix_config import MixConfig
from elmo.study.choices import Choice, NetworkSettings, SvmSettings, row_training, svm_job
from elmo.study.compare import Comparison
from elmo.study.comparison import ELMO, Row
from elmo.study.jobs import Job
from elmo.study.outcome import Outcome
from elmo.study.results import Draw, Draws, RowResult, SamplePoint
from elmo.study.row_results import best_static
from elmo.study.statistics import spread
from elmo.study.workbench import Workbench, sample_work


def draw_jobs(bench: Workbench, choices: Mapping[str, Choice]) -> list[Job]:
    """One training a draw, and one of learned weights, on the same rows with the same seed."""
    mixes = {
        f"draws-{seed}": MixConfig(mix="frozen", mix_seed=seed)
        for seed in range(bench.config.draws)
    }
    if mixes:
        mixes["draws-trainable"] = MixConfig(mix="trainable")
    settings = choices["frozen"].best if "frozen" in choices else NetworkSettings()
    assert isinstance(settings, NetworkSettings)
    work = min(bench.config.draw_rows, bench.data.train_count) * bench.config.epochs
    return [
        bench.job(
            name,
            "draws",
            ELMO,
            bench.training(
                settings.on(bench.classifier(mix, bench.config.seeds[0])),
                rows=bench.config.draw_rows,
                measures_train=False,
            ),
            work=work,
        )
        for name, mix in mixes.items()
    ]


def draws_found(bench: Workbench, results: Mapping[str, Any]) -> Draws | None:
    """What the draws gave; those that failed are left out."""
    learned = results.get("draws-trainable")
    draws = [
        Draw(
            seed=seed,
            layer_weights=one.layer_weights,
            development_accuracy=one.development_accuracy,
            test_accuracy=one.test.accuracy.value,
        )
        for seed in range(bench.config.draws)
        if isinstance(one := results.get(f"draws-{seed}"), Outcome) and one.layer_weights
    ]
    if not draws or not isinstance(learned, Outcome):
        return None
    return Draws(
        train_rows=min(bench.config.draw_rows, len(bench.data.split.train)),
        draws=tuple(draws),
        trainable_test_accuracy=learned.test.accuracy.value,
    )


def sample_jobs(bench: Workbench, rows: Sequence[Row], choices: Mapping[str, Choice]) -> list[Job]:
    """Trainings with few labels a class; numbers that the smallest class does not have are out."""
    return [
        _sample_job(bench, row, choices.get(row.name), per_class, seed)
        for row in rows
        for per_class in possible_samples(bench)
        for seed in bench.config.seeds
    ]


def samples_found(
    bench: Workbench, rows: Sequence[Row], results: Mapping[str, Any], full: Sequence[RowResult]
) -> tuple[SamplePoint, ...]:
    """The points of the curve, those of all rows at their end."""
    points: list[SamplePoint] = []
    classes = len(bench.data.labels)
    for row in rows:
        for per_class in possible_samples(bench):
            found = [
                one.test.accuracy.value
                for seed in bench.config.seeds
                if isinstance(one := results.get(_sample_name(row, per_class, seed)), Outcome)
            ]
            if found:
                accuracy = spread(found, len(bench.data.test))
                points.append(
                    SamplePoint(
                        row=row.name,
                        per_class=per_class,
                        train_rows=per_class * classes,
                        test_accuracy=accuracy,
                    )
                )
        for one in full:
            if one.name == row.name and points:
                count = len(bench.data.split.train)
                points.append(
                    SamplePoint(
                        row=row.name,
                        per_class=None,
                        train_rows=count,
                        test_accuracy=one.test_accuracy,
                    )
                )
    return tuple(points)


def possible_samples(bench: Workbench) -> list[int]:
    """The numbers of labels a class that there are."""
    data = bench.data
    smallest = min(
        int((data.classes[data.split.train] == one).sum()) for one in range(len(data.labels))
    )
    return [number for number in bench.config.samples if 2 <= number <= smallest]


def curve_rows(compared: Comparison) -> list[Row]:
    """The rows of the curve: TF-IDF, the best skip-gram on development rows, trainable λs."""
    chosen = {"tfidf", "trainable"}
    skip_grams = [row for row in compared.rows if row.name.startswith("skipgram-")]
    best = best_static(skip_grams, compared.outcomes)
    if best is not None:
        chosen.add(best.name)
    return [row for row in compared.rows if row.name in chosen & set(compared.outcomes)]


def _sample_name(row: Row, per_class: int, seed: int) -> str:
    return f"samples-{row.name}-{per_class}-seed{seed}"


def _sample_job(
    bench: Workbench, row: Row, choice: Choice | None, per_class: int, seed: int
) -> Job:
    name = _sample_name(row, per_class, seed)
    if row.kind == "tfidf":
        best = SvmSettings() if choice is None else choice.best
        assert isinstance(best, SvmSettings)
        return svm_job(bench, name, "samples", best, per_class, seed)
    training = replace(
        row_training(bench, row, choice, seed), per_class=per_class, measures_train=False
    )
    work = sample_work(bench.config, per_class * len(bench.data.labels))
    return bench.job(name, "samples", row.embedding, training, work=work)
