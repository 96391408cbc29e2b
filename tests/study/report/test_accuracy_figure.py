"""Every row is in the figure of the comparison, with its accuracy, in its group's colour."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.study.report.svg_text import count, texts

from elmo.study.report.accuracy_figure import accuracy_figure
from elmo.study.report.palette import OF_GROUP
from elmo.study.results import StudyResults


def test_every_row_has_its_name_and_accuracy(results: StudyResults) -> None:
    figure = accuracy_figure(results)
    written = texts(figure)
    for row in results.rows:
        assert row.title in written
        assert f"{row.test_accuracy.mean:.4f}" in written
        assert f"{row.test_accuracy.mean:.4f}" in figure.alt
    for colour in OF_GROUP.values():
        assert count(figure, f"stroke: {colour.light}") or count(figure, f"fill: {colour.light}")


def test_a_row_far_below_becomes_an_arrow(results: StudyResults) -> None:
    figure = accuracy_figure(results)
    assert texts(figure).count("◂") == 1
    assert "An arrow" in figure.caption
    near = accuracy_figure(replace(results, rows=results.rows[1:]))
    assert "◂" not in texts(near)
    assert "An arrow" not in near.caption


@pytest.mark.parametrize("rows", [slice(0, 1), slice(3, 4), slice(0, 3)])
def test_few_rows_are_drawn_too(results: StudyResults, rows: slice) -> None:
    some = replace(results, rows=results.rows[rows])
    figure = accuracy_figure(some)
    assert {row.title for row in some.rows} <= set(texts(figure))
    assert "Dashed" not in figure.caption  # there is nothing to compare with
