"""The matrices show the first seed's counts, and mistakes in the colour of the group."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.study.report.svg_text import count, texts

from elmo.study.report.confusion_figure import Split, confusion_figure
from elmo.study.report.palette import STATIC
from elmo.study.results import StudyResults


@pytest.mark.parametrize("split", ["train", "test"])
def test_every_count_is_written(results: StudyResults, split: Split) -> None:
    rows = results.rows[3:5]
    figure = confusion_figure(rows, results.about.labels, split)
    metrics = [getattr(row.seeds[0], split) for row in rows]
    expected = [f"{n:,}" for one in metrics for line in one.confusion for n in line]
    written = [text for text in texts(figure) if text.replace(",", "").isdigit()]
    assert sorted(written) == sorted(expected)
    assert count(figure, f"fill: {STATIC.light}; opacity") == 2 * 12  # all but the diagonals
    for row, one in zip(rows, metrics, strict=True):
        right = sum(one.confusion[place][place] for place in range(4))
        assert row.title in texts(figure)
        assert f"{row.title} {right:,} of {one.count:,} right" in figure.alt


def test_many_classes_are_drawn_without_numbers(results: StudyResults) -> None:
    row = results.rows[0]
    matrix = tuple((2,) * 9 for _ in range(9))
    seed = replace(row.seeds[0], test=replace(row.seeds[0].test, confusion=matrix))
    labels = [f"label {number}" for number in range(9)]
    figure = confusion_figure([replace(row, seeds=(seed,))], labels, "test")
    assert not [text for text in texts(figure) if text.isdigit()]
    assert set(labels) <= set(texts(figure))
