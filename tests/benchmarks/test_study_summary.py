"""The table and the figure for a README hold what the study found."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

from tests.study.conftest import full_results

import study_summary
from elmo.study import plots


def test_a_line_for_every_row_as_wide_as_the_head() -> None:
    results = full_results()
    lines = list(study_summary.table(results))
    assert len(lines) == 2 + len(results["rows"])
    assert len({line.count("|") for line in lines}) == 1
    for line, row in zip(lines[2:], results["rows"], strict=True):
        assert f"{row['test_accuracy']['mean']:.4f}" in line


def test_the_figure_is_a_file_of_its_own_on_white() -> None:
    drawing = ElementTree.fromstring(study_summary.on_white(plots.accuracy(full_results())))
    assert drawing.tag == "{http://www.w3.org/2000/svg}svg"
    assert drawing[0].get("fill") == "#ffffff"
