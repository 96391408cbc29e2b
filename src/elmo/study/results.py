"""results.json: from outcomes to the values that a report shows.

Results are plain dicts and lists; docs/study.md describes their keys.
"""

from __future__ import annotations

import platform
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from elmo.classify.metrics import compare, holm, wilson
from elmo.config import Json, to_json
from elmo.errors import UserError
from elmo.files import read_json, write_json
from elmo.runtime import cpu_cores, machine_memory, processor_name

if TYPE_CHECKING:
    from elmo.study.data import StudyData
    from elmo.study.rows import Outcome, Settings

NAME = "results.json"
CONFUSIONS, EXAMPLES = 3, 3
KEYS = {
    "results": "about language_model rows contrasts failed draws samples sweeps words senses",
    "results.about": "title command data rows_read train_rows development_rows test_rows labels "
    "preset seeds settings fingerprints versions machine finished seconds shows_texts notes "
    "detectable",
    "results.rows": "name title group embedding_parameters embedding_seconds alone beside",
}
KEPT = (
    "development_accuracy", "train", "test", "training_seconds", "train_rows", "epochs",
    "layer_weights", "gamma",
)  # fmt: skip
"""What results.json holds of each seed."""


def spread(values: Sequence[float], count: int) -> Json:
    """Mean and deviation over seeds, and Wilson's 95% interval of the mean over `count` rows."""
    mean = statistics.fmean(values)
    interval = wilson(round(mean * count), count)
    deviation = statistics.stdev(values) if len(values) > 1 else 0.0
    return {"mean": mean, "deviation": deviation, "low": interval.low, "high": interval.high}


def named(values: Mapping[str, Any]) -> list[Json]:
    """Settings or facts as a list, which keeps its order everywhere."""
    return [{"name": name, "value": value} for name, value in values.items()]


def comparisons(
    data: StudyData, pairs: Sequence[tuple[str, str]], outcomes: Mapping[str, Sequence[Outcome]]
) -> list[Json]:
    """Rows against others over all seeds, with Holm's correction over all pairs."""
    gold = data.classes[data.test]
    right = {
        name: np.array([outcome.predictions for outcome in some]) == gold
        for name, some in outcomes.items()
    }
    compared = [compare(right[row], right[against]) for row, against in pairs]
    adjusted = holm([comparison.p for comparison in compared])
    return [
        {"row": row, "against": against, **to_json(comparison), "holm": p}
        for (row, against), comparison, p in zip(pairs, compared, adjusted, strict=True)
    ]


def column_result(
    by_seed: Mapping[int, Outcome],
    reading_speed: float | None,
    data: StudyData,
    choice: tuple[Settings, list[Json]],
    compared: Json | None,
    *,
    shows_texts: bool,
) -> Json:
    """One row in one of the two columns, all its seeds."""
    chosen, candidates = choice
    outcomes = list(by_seed.values())
    pace = statistics.fmean(outcome.texts_per_second for outcome in outcomes)
    if reading_speed is not None:
        # From words to classes: first the biLM, then the classifier.
        pace = 1 / (1 / pace + 1 / reading_speed)
    trains = [outcome.train.accuracy.value for outcome in outcomes if outcome.train]
    tests, count = [outcome.test for outcome in outcomes], len(data.test)
    development = [outcome.development_accuracy for outcome in outcomes]
    return {
        "chosen": named(chosen) if candidates else [],
        "candidates": candidates,
        "seeds": [
            {"seed": seed} | {key: to_json(outcome)[key] for key in KEPT}
            for seed, outcome in by_seed.items()
        ],
        "train_accuracy": spread(trains, data.train_count),
        "test_accuracy": spread([test.accuracy.value for test in tests], count),
        "test_macro_f1": spread([test.macro.f1 for test in tests], count),
        "development_accuracy": spread(development, len(data.split.development)),
        "compared": compared,
        "parameters": outcomes[0].parameters,
        "texts_per_second": pace,
        "confusions": list(confusions(outcomes[0], data, shows_texts)),
    }


def confusions(outcome: Outcome, data: StudyData, shows_texts: bool) -> Iterator[Json]:
    """The most frequent mistakes, with the first test rows where they are made."""
    gold, predicted = data.classes[data.test], np.array(outcome.predictions)
    matrix = np.array(outcome.test.confusion)
    np.fill_diagonal(matrix, 0)
    most: list[int] = np.argsort(-matrix.ravel(), kind="stable")[:CONFUSIONS].tolist()
    for label, other in (divmod(cell, len(data.labels)) for cell in most):
        rows: list[int] = np.flatnonzero((gold == label) & (predicted == other)).tolist()
        if rows and label != other:
            yield {
                "label": data.labels[label],
                "predicted": data.labels[other],
                "count": len(rows),
                "examples": [
                    {"row": r, "text": data.texts[data.train_count + r] if shows_texts else None}
                    for r in rows[:EXAMPLES]
                ],
            }


def flat_settings(prefix: str, settings: Any) -> Iterator[Json]:
    """All settings of nested dataclasses by their full names; lists as their values in a row."""
    for item in fields(settings):
        value = getattr(settings, item.name)
        if is_dataclass(value):
            yield from flat_settings(f"{prefix}{item.name}.", value)
        else:
            if isinstance(value, tuple):
                value = " ".join(map(str, cast("tuple[object, ...]", value)))
            yield {"name": prefix + item.name, "value": value}


def versions() -> list[Json]:
    installed = {"Python": platform.python_version()}
    for package in ("elmo", "torch", "numpy", "scikit-learn", "gensim"):
        try:
            installed[package] = version(package)
        except PackageNotFoundError:
            continue
    return named(installed)


def machine() -> str:
    cores, memory = cpu_cores(), machine_memory() / 2**30
    unit = "core" if cores == 1 else "cores"
    return f"{processor_name()}, {cores} {unit}, {memory:.0f} GB, {platform.system()}"


def write_results(results: Json, folder: Path) -> None:
    write_json(folder / NAME, results)


def read_results(path: Path) -> Json:
    """Read results.json, by its own path or by that of a study's folder."""
    file = path / NAME if path.is_dir() else path
    results: Any = read_json(file)
    objects: list[tuple[str, Any]] = [("results", results)]
    if isinstance(results, dict):
        objects += [("results.about", cast("Json", results).get("about"))]
        objects += [("results.rows", row) for row in cast("Json", results).get("rows") or ()]
    for where, value in objects:
        wanted = set(KEYS[where].split())
        keys = set[str](cast("Json", value)) if isinstance(value, dict) else None
        if keys != wanted:
            other = "no object" if keys is None else ", ".join(sorted(keys ^ wanted))
            raise UserError(
                f"{file}: expected the results of a study, as this version of elmo writes them, "
                f"but {where} does not have the same keys ({other}); run the study again, or use "
                "the version that wrote the file"
            )
    return cast("Json", results)
