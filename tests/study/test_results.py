"""results.json comes back as it was; what is no results.json is refused in clear words."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats
from tests.study.toys import toy_data

from elmo.errors import UserError
from elmo.study.config import STANDARD
from elmo.study.results import (
    Outcome,
    StudyResults,
    all_rows,
    chosen_rows,
    measured,
    paired,
    read_results,
    spread,
    write_results,
)

# Spreads and pairs against what SciPy and statistics make of them.


DATA = toy_data()


def outcome(predictions: np.ndarray) -> Outcome:
    probabilities = np.eye(2)[predictions]
    metrics = measured(DATA, probabilities, DATA.test)
    return Outcome(
        development_accuracy=0.5, train=None, test=metrics, predictions=tuple(predictions.tolist()),
        training_seconds=1.0, texts_per_second=1.0, parameters=1,
    )  # fmt: skip


def test_mean_deviation_and_interval() -> None:
    found = spread([0.8, 0.9, 0.85], 1000)
    assert found.mean == pytest.approx(np.mean([0.8, 0.9, 0.85]))
    assert found.deviation == pytest.approx(np.std([0.8, 0.9, 0.85], ddof=1))
    interval = stats.binomtest(850, 1000).proportion_ci(method="wilson")
    assert (found.low, found.high) == pytest.approx((interval.low, interval.high))
    assert spread([0.5], 10).deviation == 0


def test_pairs_are_compared_on_the_test_rows() -> None:
    gold = DATA.classes[DATA.test]
    this, other = gold.copy(), gold.copy()
    this[:3] = 1 - this[:3]
    other[2:13] = 1 - other[2:13]
    found = paired(DATA, outcome(this), outcome(other), "svd-2")
    assert (found.against, found.only_this, found.only_other) == ("svd-2", 10, 2)
    assert found.p == pytest.approx(stats.binomtest(2, 12, 0.5).pvalue)


# Rows by name and by kind, in the order of the table.


def names(*rows: str) -> list[str]:
    return [row.name for row in chosen_rows(replace(STANDARD, rows=rows), layers=2)]


def test_every_row_is_there_once() -> None:
    rows = [row.name for row in all_rows(STANDARD, layers=2)]
    assert rows == [
        "majority", "tfidf", "own", "svd-2", "svd-5", "svd-8", "skipgram-2", "skipgram-5",
        "skipgram-8", "layer-0", "layer-1", "layer-2", "average", "frozen", "trainable",
        "function", "fine-tuned",
    ]  # fmt: skip
    assert names() == rows


def test_kinds_stand_for_rows_and_the_order_stays() -> None:
    assert names("mixes", "svd") == ["svd-2", "svd-5", "svd-8", "frozen", "trainable", "function"]
    assert names("static") == names("skipgram", "svd")
    assert names("trainable", "majority", "mixes")[0] == "majority"


def test_a_mistyped_row_is_named_with_what_was_meant() -> None:
    with pytest.raises(UserError, match="did you mean 'trainable'"):
        names("trainabel")
    with pytest.raises(UserError, match="--windows"):
        names("svd-3")


@pytest.fixture
def file(results: StudyResults, tmp_path: Path) -> Path:
    write_results(results, tmp_path)
    return tmp_path / "results.json"


def test_every_figure_comes_back(results: StudyResults, file: Path) -> None:
    assert read_results(file) == results
    assert read_results(file.parent) == results


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"results\.json: no such file"):
        read_results(tmp_path)


def test_a_file_that_is_no_json(file: Path) -> None:
    file.write_text("{", encoding="utf-8")
    with pytest.raises(UserError, match="expected JSON"):
        read_results(file)


def test_problems_are_named_the_first_of_them(file: Path) -> None:
    data = json.loads(file.read_text(encoding="utf-8"))
    data["about"]["preset"] = 3
    for row in data["rows"]:
        del row["parameters"]
    with pytest.raises(UserError) as raised:
        rewritten(file, data)
    message = str(raised.value)
    assert "expected the results of a study, as this version of elmo writes them" in message
    assert "results.about.preset: expected str, got 3" in message
    assert "results.rows[0]: key 'parameters' is missing" in message
    assert "and 15 more" in message
    assert "run the study again" in message


def drop_seeds(data: dict[str, Any]) -> None:
    data["rows"][2]["seeds"] = []


def twice(data: dict[str, Any]) -> None:
    data["rows"].append(data["rows"][0])


def another_label(data: dict[str, Any]) -> None:
    data["about"]["labels"].append("Arts")


def fewer_weights(data: dict[str, Any]) -> None:
    data["draws"]["draws"][0]["layer_weights"].pop()


def uneven_weights(data: dict[str, Any]) -> None:
    data["rows"][14]["seeds"][0]["layer_weights"].pop()


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        (drop_seeds, r"results\.rows\[2\] \(own\): expected one seed or more"),
        (twice, r"results\.rows: expected each name once"),
        (another_label, "seed 0, train: expected figures of 5 labels"),
        (fewer_weights, r"results\.draws: expected as many weights in every draw"),
        (uneven_weights, r"\(trainable\): expected as many layer weights for every seed"),
    ],
)
def test_contradictions_are_named(file: Path, damage: Any, problem: str) -> None:
    data = json.loads(file.read_text(encoding="utf-8"))
    damage(data)
    with pytest.raises(UserError, match=problem):
        rewritten(file, data)


def test_results_without_rows_are_results(results: StudyResults, tmp_path: Path) -> None:
    empty = replace(results, rows=(), draws=None)
    write_results(empty, tmp_path)
    assert read_results(tmp_path) == empty


def rewritten(file: Path, data: object) -> StudyResults:
    file.write_text(json.dumps(data), encoding="utf-8")
    return read_results(file)
