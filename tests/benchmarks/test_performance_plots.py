"""Pictures are SVG on white, and the same for the same figures."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from bench_files import read_bench, shown
from performance_plots import SCALES, draw_growth, draw_quality, draw_training


def drawn(results: Path, name: str, path: Path) -> str:
    found = read_bench(results / f"{name}.json")
    if name == "training":
        draw_training(found, path)
    elif name == "growth":
        draw_growth(found, path)
    else:
        draw_quality(found.curves, path)
    return path.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["training", "time_to_quality", "growth"])
def test_a_picture_is_an_svg_on_white_that_does_not_change(
    results: Path, tmp_path: Path, name: str
):
    first, second = (drawn(results, name, tmp_path / f"{number}.svg") for number in (1, 2))
    assert first == second
    assert ElementTree.fromstring(first).tag == "{http://www.w3.org/2000/svg}svg"
    assert "fill: #ffffff" in first


def test_words_are_words(results: Path, tmp_path: Path):
    growth = drawn(results, "growth", tmp_path / "growth.svg")
    assert all(title in growth for title in SCALES.values())
    training = drawn(results, "training", tmp_path / "training.svg")
    assert "default, fp32, one core taken" in training or "default, bf16" in training


def test_what_is_to_be_reached_has_its_number(results: Path, tmp_path: Path):
    end = read_bench(results / "time_to_quality.json").curves[0].perplexity[-1]
    assert f">{shown(end)}<" in drawn(results, "time_to_quality", tmp_path / "quality.svg")
