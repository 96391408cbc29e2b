"""results.json comes back as it was; what is no results.json is refused in clear words."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from elmo.errors import UserError
from elmo.study.report.results_file import read_results, write_results
from elmo.study.results import StudyResults


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
