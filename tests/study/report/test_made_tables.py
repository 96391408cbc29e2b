"""How a study was done: all that was tried, and what was chosen of it."""

from __future__ import annotations

from tests.study.report.test_tables import lines

from elmo.study.report.made_tables import (
    candidates_table,
    chosen_table,
    described,
    facts_table,
    machine_table,
)
from elmo.study.results import StudyResults


def test_what_was_chosen(results: StudyResults) -> None:
    found = lines(chosen_table(results.rows))
    row = results.rows[4]
    development = f"{row.development_accuracy.mean:.4f}"
    assert found[row.title] == ("learning_rate 0.001, dropout 0.3", "2", development)
    assert found["Majority class"][0] == "none to choose"


def test_one_candidate_of_each_row_is_the_chosen_one(results: StudyResults) -> None:
    table = candidates_table(results.rows)
    assert [part.title for part in table.parts] == [row.title for row in results.rows[1:]]
    for part in table.parts:
        assert [line[2] for line in part.lines] == ["chosen", ""]
        assert part.lines[1][0] == "learning_rate 0.003, dropout 0.3"


def test_facts_keep_their_names(results: StudyResults) -> None:
    found = lines(facts_table("settings", "All.", results.about.settings))
    assert found["static_dim"] == ("300",)
    assert found["bilm"] == ("none",)
    assert described(()) == "none to choose"


def test_where_and_when(results: StudyResults) -> None:
    found = lines(machine_table(results, "5 h 12 min"))
    assert found["seeds"] == ("0, 1, 2",)
    assert found["finished"] == ("2026-01-31 12:00 UTC",)
    assert found["work in all"] == ("5 h 12 min",)
