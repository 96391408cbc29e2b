"""Figures over seeds and pairs are SciPy's; rows hold them; results.json is read strictly."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats
from tests.study.conftest import PUBLISHED
from tests.study.toys import TINY, TINY_BILM, toy_data

from elmo.classify.metrics import measure
from elmo.errors import UserError
from elmo.study.results import (
    best_static,
    flat_settings,
    paired,
    read_results,
    row_result,
    spread,
    write_results,
)
from elmo.study.rows import Embedding, Outcome, Row

DATA = toy_data()
GOLD = DATA.classes[DATA.test]
SVD, SKIP_GRAM = (Row(name, name, "static") for name in ("svd-2", "skipgram-2"))
ELMO = Row("trainable", "trainable", "elmo")


def outcome(predictions: NDArray[np.int64], **changes: Any) -> Outcome:
    metrics = measure(np.eye(2)[predictions], GOLD, DATA.labels)
    one = Outcome(
        development_accuracy=0.5, train=metrics, test=metrics,
        predictions=tuple(predictions.tolist()), training_seconds=1.0, texts_per_second=1.0,
        parameters=1,
    )  # fmt: skip
    return replace(one, **changes)


def good(development: float, wrong: int = 0, **changes: Any) -> Outcome:
    predictions = np.where(np.arange(len(GOLD)) < wrong, 1 - GOLD, GOLD)
    return outcome(predictions, development_accuracy=development, **changes)


def test_mean_deviation_and_interval() -> None:
    values = [0.8, 0.9, 0.85]
    found = spread(values, 1000)
    assert found["mean"] == pytest.approx(np.mean(values))
    assert found["deviation"] == pytest.approx(np.std(values, ddof=1))
    interval = stats.binomtest(850, 1000).proportion_ci(method="wilson")
    assert (found["low"], found["high"]) == pytest.approx((interval.low, interval.high))
    assert spread([0.5], 10)["deviation"] == 0


def test_pairs_are_compared_on_the_test_rows_of_the_first_seeds() -> None:
    this, other = GOLD.copy(), GOLD.copy()
    this[:3] = 1 - this[:3]
    other[2:13] = 1 - other[2:13]
    found = paired(DATA, [outcome(this), outcome(other)], [outcome(other)], "svd-2")
    assert (found["against"], found["only_this"], found["only_other"]) == ("svd-2", 10, 2)
    assert found["p"] == pytest.approx(stats.binomtest(2, 12, 0.5).pvalue)


def test_the_best_static_row_is_chosen_on_development_rows() -> None:
    outcomes = {
        "svd-2": [good(0.8, wrong=0), good(0.7)],
        "skipgram-2": [good(0.76, wrong=20), good(0.76)],
        "trainable": [good(0.99)],
    }
    assert best_static((SVD, SKIP_GRAM, ELMO), outcomes) == SKIP_GRAM
    assert best_static((ELMO,), outcomes) is None


@pytest.mark.parametrize("shows_texts", [True, False])
def test_a_row_holds_its_figures(shows_texts: bool) -> None:
    some = [good(0.8, wrong=6, texts_per_second=100.0), good(0.6, wrong=3, texts_per_second=300.0)]
    ready = Embedding(key="k", parameters=7, seconds=3.0, texts_per_second=200.0)
    found = row_result(ELMO, some, (5, 6), ready, DATA, None, None, shows_texts=shows_texts)
    assert [seed["seed"] for seed in found["seeds"]] == [5, 6]
    assert found["test_accuracy"]["mean"] == pytest.approx(1 - 4.5 / 30)
    assert found["development_accuracy"]["mean"] == pytest.approx(0.7)
    assert found["texts_per_second"] == pytest.approx(100)  # 1 / (1/200 + 1/200)
    assert (found["embedding_parameters"], found["embedding_seconds"]) == (7, 3.0)
    assert sum(confusion["count"] for confusion in found["confusions"]) == 6
    for confusion in found["confusions"]:
        assert confusion["count"] == sum(
            DATA.labels[label] == confusion["label"] for label in GOLD[:6]
        )
        for example in confusion["examples"]:
            row = DATA.train_count + example["row"]
            assert DATA.labels[DATA.classes[row]] == confusion["label"] != confusion["predicted"]
            assert example["text"] == (DATA.texts[row] if shows_texts else None)
            assert example["row"] < 6


def test_settings_have_their_full_names() -> None:
    found = {one["name"]: one["value"] for one in flat_settings("x.", TINY_BILM)}
    assert found["x.model.hidden"] == 8
    assert found["x.training.epochs"] == 1
    assert {one["name"]: one["value"] for one in flat_settings("", TINY)}["seeds"] == "0 1"


# results.json.


def rewritten(tmp_path: Path, data: Any) -> Any:
    file = tmp_path / "results.json"
    file.write_text(json.dumps(data), encoding="utf-8")
    return read_results(file)


def test_every_figure_comes_back_and_published_results_can_be_read(
    results: Any, tmp_path: Path
) -> None:
    write_results(results, tmp_path)
    assert read_results(tmp_path) == read_results(tmp_path / "results.json") == results
    assert read_results(PUBLISHED)["about"]["data"] == "ag_news"
    empty = results | {"rows": [], "draws": None}
    assert rewritten(tmp_path, empty) == empty


def test_what_is_no_results_file_is_refused(results: Any, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"results\.json: no such file"):
        read_results(tmp_path)
    (tmp_path / "results.json").write_text("{", encoding="utf-8")
    with pytest.raises(UserError, match="expected JSON"):
        read_results(tmp_path)
    with pytest.raises(UserError, match="expected an object, got list"):
        rewritten(tmp_path, [])
    results["about"]["colour"] = 3
    for row in results["rows"]:
        del row["parameters"]
    with pytest.raises(UserError) as raised:
        rewritten(tmp_path, results)
    message = str(raised.value)
    assert "expected the results of a study, as this version of elmo writes them" in message
    assert "results.about: unknown key 'colour'" in message
    assert "results.rows[0]: key 'parameters' is missing" in message
    assert "and 15 more" in message
    assert "run the study again" in message


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        (lambda r: r["rows"][2].update(seeds=[]), "own: expected one seed or more"),
        (lambda r: r["rows"].append(r["rows"][0]), "expected each name once"),
        (lambda r: r["about"]["labels"].append("Arts"), "train: expected 5 labels"),
        (lambda r: r["rows"][1]["seeds"][0]["test"]["confusion"].pop(), "test: expected 4 labels"),
    ],
)
def test_contradictions_are_named(results: Any, tmp_path: Path, damage: Any, problem: str) -> None:
    damage(results)
    with pytest.raises(UserError, match=problem):
        rewritten(tmp_path, results)
