"""Figures hold the data they were given, in colours that can be told apart and read."""

from __future__ import annotations

import re
from typing import Any
from xml.etree import ElementTree

import pytest

from elmo.study import plots
from elmo.study.plots import COLOURS, LIGHT

SVG = "{http://www.w3.org/2000/svg}"
NAMES = {
    "svd": ("SVD", "static"),
    "skipgram": ("Skip-gram", "static"),
    "trainable": ("ELMo, trainable λs", "elmo"),
}


def texts(svg: str) -> list[str]:
    found = ElementTree.fromstring(svg).iter(f"{SVG}text")
    return ["".join(one.itertext()).strip() for one in found]


def count(svg: str, style: str) -> int:
    return sum(style in (one.get("style") or "") for one in ElementTree.fromstring(svg).iter())


def test_every_row_and_its_accuracy(results: Any) -> None:
    majority = results["rows"][0]["alone"]["test_accuracy"]
    majority |= {"mean": 0.1, "low": 0.1, "high": 0.1}
    found = texts(plots.accuracy(results["rows"]))
    for row in results["rows"]:
        assert row["title"] in found
        for column in (row["alone"], row["beside"]):
            assert column is None or f"{column['test_accuracy']['mean']:.4f}" in found
    assert found.count("◂") == 1  # the majority class is far to the left
    alone = results["rows"][0]
    alone["alone"]["compared"] = None
    assert "Majority class" in texts(plots.accuracy([alone]))


@pytest.mark.parametrize("split", ["train", "test"])
def test_every_cell_of_every_matrix(results: Any, split: str) -> None:
    rows = [row | row["alone"] for row in results["rows"] if row["alone"]][3:9]
    svg = plots.confusion(rows, results["about"]["labels"], split)
    matrices = [row["seeds"][0][split]["confusion"] for row in rows]
    wanted = sorted(f"{n:,}" for matrix in matrices for line in matrix for n in line)
    assert sorted(text for text in texts(svg) if re.fullmatch(r"[\d,]+", text)) == wanted
    # Many classes: colours alone.
    for row in rows:
        row["seeds"][0][split]["confusion"] = [[1] * 9] * 9
    many = plots.confusion(rows, [f"a long name {idx}" for idx in range(9)], split)
    assert not any(text.isdigit() for text in texts(many))


def test_confused_words_are_a_heat_map() -> None:
    pairs = [("the", "a", 1234), ("</S>", "<b>$x$</b>", 7), ("the", "it", 3)]
    confusions = [{"predicted": p, "true": t, "count": n} for p, t, n in pairs]
    svg = plots.word_confusions(confusions)
    assert {"the", "a", "</S>", "<b>$x$</b>", "it", "1,234", "7", "3"} <= set(texts(svg))
    assert texts(svg).count("the") == 1
    assert plots.on_white(svg).count('fill="#ffffff"') == 1


def test_one_dot_per_seed_and_layer_or_per_draw(results: Any) -> None:
    row = next(row for row in results["rows"] if row["name"] == "trainable")
    row |= row["alone"]
    assert markers(plots.weights([row])) == 3 * len(row["seeds"])
    assert markers(plots.draws(results["draws"])) == 3 * len(results["draws"]["draws"])
    assert texts(plots.draws(results["draws"])).count("weight of layer 1") == 1
    assert markers(plots.best_of(results["draws"])) == len(results["draws"]["draws"])


def markers(svg: str) -> int:
    return len(re.findall(r"<use[^>]*fill: #1c5d99", svg))


def test_curves_are_named_and_every_point_is_drawn(results: Any) -> None:
    names = {row["name"]: (row["title"], row["group"]) for row in results["rows"]}
    svg = plots.samples(results["samples"], names)
    written = " ".join(texts(svg))
    for point in results["samples"]:
        assert names[point["row"]][0] in written
        assert f"{point['train_rows']:,}" in written
    assert "4 per class" in written
    elmo = [point for point in results["samples"] if names[point["row"]][1] == "elmo"]
    assert markers(svg) == len(elmo) + 1  # and the band of intervals
    curves = [curve for curve in results["sweeps"] if curve["setting"] == "window"]
    svg = plots.sweep(curves, NAMES, "Context window")
    written = " ".join(texts(svg))
    assert "window" in written
    assert all(f"{point['value']:g}" in written for curve in curves for point in curve["points"])
    assert count(svg, f"stroke: {LIGHT['static']}")
    history = results["language_model"]["history"]
    svg = plots.perplexity(history)
    assert {"forward", "backward", "both"} <= set(texts(svg))
    assert markers(svg) == len(history)


@pytest.mark.parametrize("title", ["$x^2$ <b>&\"'", 'a id="it" url(#x)', "雨 العربية", "#1f2933"])
def test_what_looks_like_markup_is_text(results: Any, title: str) -> None:
    row = results["rows"][0] | {"title": title}
    row["alone"]["compared"] = None
    svg = plots.accuracy([row])
    assert title in texts(svg)
    page = plots.inline(svg)
    assert "xmlns" not in page
    assert page.count("#1f2933") == title.count("#1f2933")
    assert "var(--ink)" in page


def test_the_same_figure_gives_the_same_text_and_ids_are_used_and_its_own(results: Any) -> None:
    history = results["language_model"]["history"]
    svg = plots.perplexity(history)
    assert svg == plots.perplexity(history)
    assert not re.search(r"metadata|matplotlib|20\d\d-", svg, re.IGNORECASE)
    ids = re.findall(r' id="([^"]+)"', svg)
    assert len(set(ids)) == len(ids)
    assert set(ids) == set(re.findall(r'(?:url\(#|href="#)([^")]+)', svg))
    assert all(one.startswith("perplexity-") for one in ids)


@pytest.mark.parametrize("dark", [False, True])
def test_text_can_be_read(dark: bool) -> None:
    """WCAG's contrast of at least 4.5 on the page and on shaded code."""

    def luminance(colour: str) -> float:
        parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    def contrast(one: str, other: str) -> float:
        low, high = sorted(luminance(COLOURS[name][dark]) for name in (one, other))
        return (high + 0.05) / (low + 0.05)

    for name in ("ink", "faint", "control", "static", "elmo"):
        assert contrast(name, "paper") >= 4.5
    assert contrast("ink", "shade") >= 4.5
    assert contrast("on-strong", "elmo") >= 4.5
    for name in COLOURS:
        assert f"--{name}: {COLOURS[name][dark]};" in plots.css_variables(dark=dark)
