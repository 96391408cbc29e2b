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
from tests.study.toys import TINY, TINY_BILM, toy_data

from elmo.classify.metrics import measure
from elmo.errors import UserError
from elmo.study.results import (
    column_result,
    comparisons,
    flat_settings,
    read_results,
    spread,
    write_results,
)
from elmo.study.rows import Outcome, Row, best_static

DATA = toy_data()
GOLD = DATA.classes[DATA.test]
SVD, SKIP_GRAM = (Row(name, name, "static") for name in ("svd-2", "skipgram-2"))
ELMO = Row("trainable", "trainable", "elmo")


def outcome(predictions: NDArray[np.int64], **changes: Any) -> Outcome:
    metrics = measure(np.eye(2)[predictions], GOLD, DATA.labels)
    one = Outcome(
        development_accuracy=0.5, train=metrics, test=metrics,
        predictions=tuple(predictions.tolist()), training_seconds=1.0, texts_per_second=1.0,
        parameters=1, train_rows=80,
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


def test_rows_are_compared_over_all_seeds_and_corrected() -> None:
    better, worse = GOLD.copy(), GOLD.copy()
    better[:3] = 1 - better[:3]
    worse[2:13] = 1 - worse[2:13]
    outcomes = {
        "svd-2": [outcome(worse), outcome(worse)],
        "trainable": [outcome(better), outcome(better)],
        "average": [outcome(better), outcome(worse)],
    }
    pairs = [("trainable", "svd-2"), ("average", "svd-2")]
    found = {some["row"]: some for some in comparisons(DATA, pairs, outcomes)}
    assert [*found] == ["trainable", "average"]
    # Two equal seeds are one: 10 rows against 2.
    expected = stats.binomtest(2, 12, 0.5).pvalue
    assert found["trainable"]["p"] == pytest.approx(expected)
    assert found["average"]["p"] == pytest.approx(expected)
    assert found["trainable"]["holm"] == found["average"]["holm"] == pytest.approx(2 * expected)
    assert found["trainable"]["difference"] == pytest.approx(8 / 30)
    assert found["average"]["difference"] == pytest.approx(4 / 30)
    assert found["average"]["standard_error"] > found["trainable"]["standard_error"]
    assert found["trainable"]["against"] == "svd-2"
    assert comparisons(DATA, [], outcomes) == []


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
    some = {
        5: good(0.8, wrong=6, texts_per_second=100.0),
        6: good(0.6, wrong=3, texts_per_second=300.0),
    }
    choice = ({"dropout": 0.3}, [{"settings": [], "development_accuracy": 0.5}])
    found = column_result(some, 200.0, DATA, choice, None, shows_texts=shows_texts)
    assert found["chosen"] == [{"name": "dropout", "value": 0.3}]
    assert [seed["seed"] for seed in found["seeds"]] == [5, 6]
    assert found["test_accuracy"]["mean"] == pytest.approx(1 - 4.5 / 30)
    assert found["development_accuracy"]["mean"] == pytest.approx(0.7)
    assert found["texts_per_second"] == pytest.approx(100)  # 1 / (1/200 + 1/200)
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


def test_every_figure_comes_back(results: Any, tmp_path: Path) -> None:
    write_results(results, tmp_path)
    assert read_results(tmp_path) == read_results(tmp_path / "results.json") == results
    empty = results | {"rows": [], "draws": None}
    assert rewritten(tmp_path, empty) == empty


def test_what_is_no_results_file_is_refused(results: Any, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"results\.json: no such file"):
        read_results(tmp_path)
    (tmp_path / "results.json").write_text("{", encoding="utf-8")
    with pytest.raises(UserError, match="expected JSON"):
        read_results(tmp_path)
    with pytest.raises(UserError, match=r"\(no object\)"):
        rewritten(tmp_path, [])
    results["about"]["colour"] = 3
    with pytest.raises(
        UserError, match=r"results\.about does not .* \(colour\); run the study again"
    ):
        rewritten(tmp_path, results)
    del results["about"]["colour"], results["rows"][3]["title"]
    with pytest.raises(UserError, match=r"results\.rows does not have the same keys \(title\)"):
        rewritten(tmp_path, results)
