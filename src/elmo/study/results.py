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
from typing import Any, cast

import numpy as np

from elmo.classify.metrics import mcnemar, wilson
from elmo.config import Json, to_json
from elmo.errors import UserError
from elmo.files import read_json, write_json
from elmo.runtime import cpu_cores, machine_memory
from elmo.study.data import StudyData
from elmo.study.rows import Embedding, Outcome, Row, Settings, named

NAME = "results.json"
CONFUSIONS, EXAMPLES = 3, 3
KEYS = {
    "": "about language_model rows failed draws samples sweeps words senses",
    "about": "command data train_rows development_rows test_rows labels preset seeds settings "
    "fingerprints versions machine finished seconds shows_texts",
    "rows": "name title group chosen candidates seeds train_accuracy test_accuracy test_macro_f1 "
    "development_accuracy paired parameters embedding_parameters embedding_seconds "
    "texts_per_second confusions",
}


def spread(values: Sequence[float], count: int) -> Json:
    """Mean and deviation over seeds, and Wilson's 95% interval of the mean over `count` rows."""
    mean = statistics.fmean(values)
    interval = wilson(round(mean * count), count)
    deviation = statistics.stdev(values) if len(values) > 1 else 0.0
    return {"mean": mean, "deviation": deviation, "low": interval.low, "high": interval.high}


def best_static(rows: Sequence[Row], outcomes: Mapping[str, Sequence[Outcome]]) -> Row | None:
    """The static row with the best mean development accuracy: the others are compared with it."""
    static = [row for row in rows if row.group == "static" and outcomes.get(row.name)]
    return max(
        static,
        key=lambda row: statistics.fmean(o.development_accuracy for o in outcomes[row.name]),
        default=None,
    )


def paired(data: StudyData, this: Sequence[Outcome], other: Sequence[Outcome], name: str) -> Json:
    """McNemar's test of the first seeds of two rows on the same test rows."""
    gold = data.classes[data.test]
    found = mcnemar(*(np.array(some[0].predictions) == gold for some in (this, other)))
    return {
        "against": name,
        "only_this": found.only_first,
        "only_other": found.only_second,
        "p": found.p,
    }


def row_result(
    row: Row,
    outcomes: Sequence[Outcome],
    seeds: Sequence[int],
    embedding: Embedding,
    data: StudyData,
    choice: tuple[Settings, list[Json]] | None,
    against: Json | None,
    *,
    shows_texts: bool,
) -> Json:
    """One row of the comparison, all its seeds."""
    chosen, candidates = choice or ({}, [])
    pace = statistics.fmean(outcome.texts_per_second for outcome in outcomes)
    if embedding.texts_per_second is not None:
        # From words to classes: first the biLM, then the classifier.
        pace = 1 / (1 / pace + 1 / embedding.texts_per_second)
    trains = [outcome.train.accuracy.value for outcome in outcomes if outcome.train]
    tests, count = [outcome.test for outcome in outcomes], len(data.test)
    development = [outcome.development_accuracy for outcome in outcomes]
    return {
        "name": row.name,
        "title": row.title,
        "group": row.group,
        "chosen": named(chosen),
        "candidates": candidates,
        "seeds": [
            {
                "seed": seed,
                "development_accuracy": outcome.development_accuracy,
                "train": None if outcome.train is None else to_json(outcome.train),
                "test": to_json(outcome.test),
                "training_seconds": outcome.training_seconds,
                "layer_weights": outcome.layer_weights,
                "gamma": outcome.gamma,
            }
            for outcome, seed in zip(outcomes, seeds, strict=False)
        ],
        "train_accuracy": spread(trains, data.train_count),
        "test_accuracy": spread([test.accuracy.value for test in tests], count),
        "test_macro_f1": spread([test.macro.f1 for test in tests], count),
        "development_accuracy": spread(development, len(data.split.development)),
        "paired": against,
        "parameters": outcomes[0].parameters,
        "embedding_parameters": embedding.parameters,
        "embedding_seconds": embedding.seconds,
        "texts_per_second": pace,
        "confusions": list(_confusions(outcomes[0], data, shows_texts)),
    }


def _confusions(outcome: Outcome, data: StudyData, shows_texts: bool) -> Iterator[Json]:
    """The most frequent mistakes, with the first test rows where they are made."""
    gold, predicted = data.classes[data.test], np.array(outcome.predictions)
    matrix = np.array(outcome.test.confusion)
    np.fill_diagonal(matrix, 0)
    most: list[int] = np.argsort(-matrix.ravel(), kind="stable")[:CONFUSIONS].tolist()
    for cell in most:
        label, other = divmod(cell, len(data.labels))
        if not matrix[label, other]:
            continue
        rows: list[int] = np.flatnonzero((gold == label) & (predicted == other)).tolist()
        yield {
            "label": data.labels[label],
            "predicted": data.labels[other],
            "count": int(matrix[label, other]),
            "examples": [
                {"row": row, "text": data.texts[data.train_count + row] if shows_texts else None}
                for row in rows[:EXAMPLES]
            ],
        }


def flat_settings(prefix: str, settings: Any) -> Iterator[Json]:
    """All settings of nested dataclasses by their full names; lists as their values in a row."""
    for one in fields(settings):
        value = getattr(settings, one.name)
        if is_dataclass(value):
            yield from flat_settings(f"{prefix}{one.name}.", value)
        else:
            if isinstance(value, tuple):
                value = " ".join(str(item) for item in cast("tuple[object, ...]", value))
            yield {"name": prefix + one.name, "value": value}


def versions() -> list[Json]:
    """Of Python and of the packages that compute something."""
    found = {"Python": platform.python_version()}
    for package in ("elmo", "torch", "numpy", "scikit-learn", "gensim"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return named(found)


def machine() -> str:
    """Processor, cores and memory."""
    cores = cpu_cores()
    unit = "core" if cores == 1 else "cores"
    memory = machine_memory() / 2**30
    return f"{processor()}, {cores} {unit}, {memory:.0f} GB, {platform.system()}"


def processor() -> str:
    """The model of the processor, where the system tells it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def write_results(results: Json, folder: Path) -> None:
    """Write results.json into a folder."""
    write_json(folder / NAME, results)


def read_results(path: Path) -> Json:
    """Read results.json, by its own path or by that of a study's folder."""
    file = path / NAME if path.is_dir() else path
    results = read_json(file)
    problems = list(_problems(results))
    if problems:
        listed = "\n".join(f"  - {problem}" for problem in problems[:3])
        more = f"\n  - and {len(problems) - 3} more" if len(problems) > 3 else ""
        raise UserError(
            f"{file}: expected the results of a study, as this version of elmo writes them:\n"
            f"{listed}{more}\nrun the study again, or use the version that wrote the file"
        )
    return results


def _problems(results: Any) -> Iterator[str]:
    """What no study writes, but another version or an editor may."""
    objects: list[tuple[str, str, Any]] = [("results", "", results)]
    if isinstance(results, dict):
        found = cast("Json", results)
        objects.append(("results.about", "about", found.get("about")))
        rows = cast("list[Any]", found.get("rows") or [])
        objects += [(f"results.rows[{idx}]", "rows", row) for idx, row in enumerate(rows)]
    for where, kind, value in objects:
        keys = KEYS[kind].split()
        if not isinstance(value, dict):
            yield f"{where}: expected an object, got {type(value).__name__}"
            continue
        entries = cast("Json", value)
        yield from (f"{where}: key {key!r} is missing" for key in keys if key not in entries)
        yield from (f"{where}: unknown key {key!r}" for key in entries if key not in keys)
    if any(set(value or ()) != set(KEYS[kind].split()) for _, kind, value in objects):
        return
    found = cast("Json", results)
    labels, rows = len(found["about"]["labels"]), cast("list[Json]", found["rows"])
    if len({row["name"] for row in rows}) != len(rows):
        yield "results.rows: expected each name once"
    for row in rows:
        if not row["seeds"]:
            yield f"results.rows, {row['name']}: expected one seed or more"
        for seed, split in ((seed, split) for seed in row["seeds"] for split in ("train", "test")):
            matrix: list[list[int]] = seed[split]["confusion"]
            if {len(seed[split]["classes"]), len(matrix), *map(len, matrix)} != {labels}:
                yield f"results.rows, {row['name']}: {split}: expected {labels} labels"
