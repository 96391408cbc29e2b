"""The main table holds the results' own figures; classes are averaged over seeds."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from elmo.study.report.blocks import Table
from elmo.study.report.tables import Split, class_tables, failed_table, main_table
from elmo.study.results import StudyResults


def lines(table: Table) -> dict[str, tuple[str, ...]]:
    return {line[0]: line[1:] for part in table.parts for line in part.lines}


def test_every_row_has_as_many_cells_as_there_are_columns(results: StudyResults) -> None:
    table = main_table(results)
    assert sum(span.width for span in table.over) == len(table.columns)
    assert len(lines(table)) == len(results.rows)
    assert {len(line) + 1 for line in lines(table).values()} == {len(table.columns)}
    assert [part.group for part in table.parts] == ["control", "static", "elmo"]


def test_arrows_where_the_paired_test_shows_a_side(results: StudyResults) -> None:
    cells = {name: line[4] for name, line in lines(main_table(results)).items()}
    for row in results.rows:
        cell = cells[row.title]
        if row.paired is None:
            assert cell == "reference"
        else:
            assert cell.startswith(("↑", "↓")) == (row.paired.p < 0.05)
    assert cells["ELMo, fine-tuned"].startswith("↑")
    assert cells["SVD, window 2"].startswith("↓")


def test_without_a_reference_there_is_no_p(results: StudyResults) -> None:
    alone = replace(results, rows=(replace(results.rows[1], paired=None),))
    assert lines(main_table(alone))["TF-IDF, linear SVM"][4] == ""
    assert "McNemar" not in main_table(alone).caption


def test_one_seed_has_no_deviation(results: StudyResults) -> None:
    found = lines(main_table(results))
    assert "±" not in found["ELMo, fine-tuned"][0]
    assert "±" in found["ELMo, trainable λs"][0]


@pytest.mark.parametrize("split", ["train", "test"])
def test_classes_are_means_over_seeds(results: StudyResults, split: Split) -> None:
    (table,) = class_tables(results, split)
    for row in results.rows:
        confusions = [np.array(getattr(seed, split).confusion) for seed in row.seeds]
        precision = np.mean([one.diagonal() / np.maximum(1, one.sum(0)) for one in confusions], 0)
        recall = np.mean([one.diagonal() / one.sum(1) for one in confusions], 0)
        cells = lines(table)[row.title]
        assert [float(cell) for cell in cells[3::3]] == pytest.approx(precision, abs=6e-5)
        assert [float(cell) for cell in cells[4::3]] == pytest.approx(recall, abs=6e-5)
        assert float(cells[0]) == pytest.approx(precision.mean(), abs=6e-5)


def test_many_classes_take_several_tables(results: StudyResults) -> None:
    labels = tuple(f"label {number}" for number in range(11))
    row = results.rows[4]
    classes = tuple(replace(row.seeds[0].test.classes[0], label=label) for label in labels)
    seed = replace(row.seeds[0], test=replace(row.seeds[0].test, classes=classes))
    many = replace(
        results, about=replace(results.about, labels=labels), rows=(replace(row, seeds=(seed,)),)
    )
    tables = class_tables(many, "test")
    titles = [span.title for table in tables for span in table.over if span.title]
    assert titles == ["mean of classes", *labels]
    assert len({table.name for table in tables}) == len(tables) == 3


def test_failed_rows_say_why(results: StudyResults) -> None:
    assert lines(failed_table(results.failed)) == {
        "SVD, window 12": (results.failed[0].message,),
    }
