"""Figures are whole PNG files that say what the metrics say."""

from __future__ import annotations

import re
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure

from elmo.classify.loop import EpochReport
from elmo.classify.metrics import Metrics, measure
from elmo.classify.plots import draw_confusion, draw_learning_curve
from elmo.errors import UserError


def epochs(
    train: list[float], development: list[float], accuracy: list[float]
) -> list[EpochReport]:
    return [
        EpochReport(
            phase="network", epoch=1 + index, train_loss=train[index],
            development_loss=development[index], development_accuracy=accuracy[index],
            development_rows=10, mix_weights=None, gamma=None, seconds=1.0,
        )
        for index in range(len(train))
    ]  # fmt: skip


CURVES = epochs([0.9, 0.5, 0.4], [0.8, 0.6, 0.7], [0.7, 0.845, 0.8])


def metrics(names: list[str], mistakes: int = 1) -> Metrics:
    """Ten rows a class, of which the first has mistakes: they are taken for the last class."""
    gold = np.repeat(np.arange(len(names)), 10)
    predicted = gold.copy()
    predicted[:mistakes] = len(names) - 1
    return measure(np.eye(len(names))[predicted], gold, names)


def png_size(path: Path) -> tuple[int, int]:
    start = path.read_bytes()[:24]
    assert start[:8] == b"\x89PNG\r\n\x1a\n"
    return struct.unpack(">II", start[16:24])


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The figures that were saved, to be looked at."""
    figures: list[Any] = []
    save: Callable[..., None] = Figure.savefig

    def keep(figure: Figure, *args: object, **options: object) -> None:
        figures.append(figure)
        save(figure, *args, **options)

    monkeypatch.setattr(Figure, "savefig", keep)
    return figures


def test_cells_hold_counts_and_shares_of_their_row(tmp_path: Path, drawn: list[Any]) -> None:
    draw_confusion(metrics(["a", "b", "c"], mistakes=3), "Three", tmp_path / "a.png")
    [axes] = drawn[0].axes
    cells: dict[tuple[int, int], list[str]] = {}
    for text in axes.texts[:8]:
        column, row = text.get_position()
        cells.setdefault((round(row), column), []).append(text.get_text())
    assert cells == {
        (0, 0): ["7", "70.0%"],
        (0, 2): ["3", "30.0%"],
        (1, 1): ["10", "100.0%"],
        (2, 2): ["10", "100.0%"],
    }
    assert [label.get_text() for label in axes.get_yticklabels()] == ["a", "b", "c"]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["a", "b", "c"]


def test_the_title_tells_the_accuracy(tmp_path: Path, drawn: list[Any]) -> None:
    draw_confusion(metrics(["a", "b"], mistakes=5), "Two", tmp_path / "a.png")
    title, summary = [text.get_text() for text in drawn[0].axes[0].texts[-2:]]
    assert title == "Two"
    assert summary == "accuracy 75.00% (53.13% to 88.81%), 20 texts"


def test_numbers_can_be_read_on_their_colour(tmp_path: Path, drawn: list[Any]) -> None:
    draw_confusion(metrics(["a", "b", "c"], mistakes=5), "", tmp_path / "a.png")
    [axes] = drawn[0].axes
    [image] = axes.images
    for text in axes.texts[:8]:
        column, row = text.get_position()
        cell = image.get_array()[round(row), column, :3]
        ink = [1.0] * 3 if text.get_color() == "white" else [0x1F / 255, 0x29 / 255, 0x33 / 255]
        assert contrast(cell, ink) > 3


def contrast(first: Any, second: Any) -> float:
    """The contrast ratio of the WCAG; 3 is asked of large text, black on white has 21."""

    def luminance(colour: Any) -> float:
        value = np.asarray(colour, float)
        linear = np.where(value <= 0.04045, value / 12.92, ((value + 0.055) / 1.055) ** 2.4)
        return float(linear @ [0.2126, 0.7152, 0.0722])

    low, high = sorted([luminance(first), luminance(second)])
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("classes", [2, 12, 41])
def test_any_number_of_classes_with_any_names(tmp_path: Path, classes: int) -> None:
    names = [f"{one} a long $name_{{ with $ signs % and more" for one in range(classes)]
    draw_confusion(metrics(names), "50% $x", tmp_path / "folder" / "a.png")
    width, height = png_size(tmp_path / "folder" / "a.png")
    assert 400 < width < 3000
    assert 300 < height < 3000
    assert [path.name for path in (tmp_path / "folder").iterdir()] == ["a.png"]


def test_the_kept_epoch_is_marked(tmp_path: Path, drawn: list[Any]) -> None:
    draw_learning_curve(CURVES, CURVES[1], tmp_path / "a.png", "News")
    above, below = drawn[0].axes
    texts = [text.get_text() for text in above.texts]
    assert texts == ["News", "epoch 2 is kept: development accuracy 84.50%"]
    names = [text.get_text() for text in above.get_legend().get_texts()]
    assert names == ["training", "development"]
    lines = [line.get_xydata().tolist() for line in above.lines + below.lines]
    for point in ([2, 0.6], [2, 84.5]):
        assert [point] in lines
    assert [[1, 0.9], [2, 0.5], [3, 0.4]] in lines
    assert [[1, 70], [2, 84.5], [3, 80]] in lines


def test_losses_that_are_no_numbers_are_left_out(tmp_path: Path) -> None:
    nan, inf = float("nan"), float("inf")
    curves = epochs([nan, nan], [0.5, inf], [0.9, 0.25])
    draw_learning_curve(curves, curves[0], tmp_path / "a.png")
    assert png_size(tmp_path / "a.png")[0] > 400


def test_the_same_figures_give_the_same_file_without_pyplot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Whoever imports a module that stands for None fails.
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    for name in ("a", "b"):
        draw_learning_curve(CURVES, CURVES[1], tmp_path / f"{name}.png")
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()


def test_without_matplotlib_the_extra_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(name: str) -> None:
        raise ModuleNotFoundError(name=name.partition(".")[0])

    monkeypatch.setattr("elmo.runtime.importlib.import_module", missing)
    with pytest.raises(UserError, match=re.escape("pip install 'elmo-embeddings[study]'")):
        draw_learning_curve(CURVES, CURVES[1], tmp_path / "a.png")
