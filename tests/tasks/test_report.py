"""The paper's findings, generated from numbers: every verdict follows them."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree

import pytest

from elmo.tasks.report import findings, heat_map, make_report


def improvement(without: float, with_elmo: float, p: float) -> dict[str, Any]:
    arms = {"none": without, "input": with_elmo}
    difference = with_elmo - without
    return {
        "task": "pos", "title": "Parts of speech", "measure": "accuracy", "rows": 100,
        "error_reduction": difference / (1 - without),
        "paired": {"difference": difference, "low": difference, "high": difference, "p": p},
        **{arm: {"mean": value, "deviation": 0.0, "values": [value]}
           for arm, value in arms.items()},
    }  # fmt: skip


def probe(name: str, values: list[float]) -> dict[str, Any]:
    rows: list[dict[str, Any]] = []
    for layer, value in enumerate(values):
        row = {"name": f"layer {layer}", "group": "elmo", "value": value}
        if layer:
            row |= {"against": "layer 0", "difference": value - values[0], "p": 0.01}
        rows.append(row)
    rows.append({"name": "random biLM, layer 0", "group": "control", "value": 2.0})
    return {"probe": name, "title": "Parts of speech", "measure": "accuracy", "count": 9,
            "rows": rows}  # fmt: skip


def curve(rows: int, none: float, elmo: float, epochs: int | None = 2) -> dict[str, Any]:
    values = {
        arm: {"value": v, "low": v, "high": v} for arm, v in (("none", none), ("input", elmo))
    }
    return {"task": "pos", "title": "Parts of speech", "fraction": rows / 1000, "rows": rows,
            "baseline_epochs": 5, "elmo_epochs": epochs, **values}  # fmt: skip


def results(**parts: Any) -> dict[str, Any]:
    names = ("table1", "table2", "table3", "table4", "figure1", "figure2")
    return {**{name: [] for name in names}, "probes": {}, "cpu_seconds": 60.0, **parts}


def verdicts(**parts: Any) -> dict[str, bool | None]:
    return {row["claim"]: row["agrees"] for row in findings(results(**parts))}


@pytest.mark.parametrize(
    ("with_elmo", "p", "agrees"),
    [(0.9, 0.01, True), (0.9, 0.2, None), (0.7, 0.01, False), (0.7, 0.2, None)],
)
def test_an_improvement_must_be_significant(with_elmo: float, p: float, agrees: bool) -> None:
    found = verdicts(table1=[improvement(0.8, with_elmo, p)])
    assert found == {"ELMo improves: Parts of speech": agrees}


@pytest.mark.parametrize(("with_elmo", "words"), [(0.9, "50% fewer"), (0.78, "10% more")])
def test_a_loss_is_called_more_errors(with_elmo: float, words: str) -> None:
    (found,) = findings(results(table1=[improvement(0.8, with_elmo, 0.01)]))
    assert f"{words} errors" in found["numbers"]


def test_the_best_layer() -> None:
    first = verdicts(probes={"pos": probe("pos", [0.8, 0.9, 0.85])})
    assert first["The first layer knows parts of speech best"] is True
    assert first["Context layers beat layer 0: Parts of speech"] is True
    assert first["Context adds to the word alone: Parts of speech"] is True
    second = verdicts(probes={"pos": probe("pos", [0.8, 0.7, 0.75])})
    assert second["The first layer knows parts of speech best"] is False
    assert second["Context layers beat layer 0: Parts of speech"] is False
    assert second["Context adds to the word alone: Parts of speech"] is False


def test_senses_against_the_first_sense() -> None:
    found = probe("senses", [0.5, 0.6, 0.62])
    first = {"name": "first sense", "group": "control", "value": 0.65}
    for row in found["rows"][:3]:
        row |= {"against": "first sense", "difference": row["value"] - 0.65, "p": 0.001}
        row["with_frequency"] = {"value": row["value"] + 0.05, "p": 0.01, "difference": 0.02}
    found["rows"].insert(0, first)
    (row,) = (
        one for one in findings(results(probes={"senses": found})) if "first sense" in one["claim"]
    )
    assert row["agrees"] is False
    assert "with the frequency of senses, layer 2 0.6700" in row["numbers"]


def test_fewer_labels_and_updates() -> None:
    rows = [curve(10, 0.3, 0.5), curve(100, 0.5, 0.7), curve(1000, 0.7, 0.8)]
    found = findings(results(figure1=rows))
    assert [row["agrees"] for row in found] == [True, True]
    assert "with 1,000 rows takes ELMo 100 rows" in found[0]["numbers"]
    assert "ELMo is there after 2" in found[1]["numbers"]
    rows = [curve(10, 0.6, 0.5), curve(1000, 0.7, 0.65, None)]
    found = findings(results(figure1=rows))
    assert [row["agrees"] for row in found] == [False, False]
    assert "takes ELMo no number of rows" in found[0]["numbers"]


def test_the_first_page_counts_the_verdicts() -> None:
    parts = results(table1=[improvement(0.8, 0.9, 0.01), improvement(0.8, 0.9, 0.9)])
    parts["findings"] = findings(parts)
    parts["about"] = {"config": {"seeds": [0]}, "bilm": "small", "command": "elmo study paper",
                      "version": "1", "machine": "here"}  # fmt: skip
    report = make_report(parts)
    assert "agree with 1 and disagree with 0; for 1 the difference" in report["answer"][0]
    assert report["notes"] == ["Seeds: 1. Differences between runs are not shown."]
    assert [section["name"] for section in report["sections"]] == ["elmo"]
    lines = report["first"][0]["parts"][0]["lines"]
    assert [line[0] for line in lines] == ["agrees", "not significant"]


def test_the_heat_map_shows_means_over_seeds() -> None:
    rows = [
        {"title": "A & B", "seeds": [{"layer_weights": w} for w in ([0.2, 0.8], [0.4, 0.6])]},
        {"title": "C", "seeds": [{"layer_weights": [0.5, 0.5]}]},
    ]
    colours = dict.fromkeys(("ink", "on-strong", "elmo", "faint"), "#000")
    drawing = ElementTree.fromstring(heat_map(rows, colours))
    texts = [one.text for one in drawing.iter("{http://www.w3.org/2000/svg}text")]
    assert texts == ["A & B", "0.300", "0.700", "C", "0.500", "0.500", "layer 0", "layer 1"]
    boxes = list(drawing.iter("{http://www.w3.org/2000/svg}rect"))
    assert [float(box.attrib["fill-opacity"]) for box in boxes[:2]] == [0.429, 1.0]
