"""The table and the figure for a README hold what the study found."""

from __future__ import annotations

from tests.study.conftest import full_results

import study_summary


def test_a_line_for_every_row_as_wide_as_the_head() -> None:
    results = full_results()
    lines = list(study_summary.table(results))
    assert len(lines) == 2 + len(results["rows"])
    assert len({line.count("|") for line in lines}) == 1
    for line, row in zip(lines[2:], results["rows"], strict=True):
        for column in (row["alone"], row["beside"]):
            assert column is None or f"{column['test_accuracy']['mean']:.4f}" in line
