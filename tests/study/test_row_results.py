"""Rows of the table: what is best, what is confused with what, how fast it is."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.study.test_statistics import outcome
from tests.study.toys import toy_data

from elmo.study.comparison import Row
from elmo.study.row_results import EmbeddingFacts, best_static, compared, row_result

DATA = toy_data()
GOLD = DATA.classes[DATA.test]
SVD, SKIP_GRAM, ELMO = (
    Row(name, name, group)  # pyright: ignore
    for name, group in (("svd-2", "static"), ("skipgram-2", "static"), ("trainable", "elmo"))
)


def good(development: float, wrong: int = 0, **changes: Any) -> Any:
    predictions = np.where(np.arange(len(GOLD)) < wrong, 1 - GOLD, GOLD)
    one = outcome(predictions)
    return replace(one, development_accuracy=development, train=one.test, **changes)


def test_the_best_static_row_is_chosen_on_development_rows() -> None:
    outcomes = {
        "svd-2": [good(0.8, wrong=0), good(0.7)],
        "skipgram-2": [good(0.76, wrong=20), good(0.76)],
        "trainable": [good(0.99)],
    }
    assert best_static((SVD, SKIP_GRAM, ELMO), outcomes) == SKIP_GRAM
    assert best_static((ELMO,), outcomes) is None
    assert compared(SKIP_GRAM, outcomes, SKIP_GRAM, DATA) is None
    found = compared(ELMO, outcomes, SKIP_GRAM, DATA)
    assert found is not None
    assert (found.only_this, found.only_other) == (20, 0)


def test_a_row_holds_its_figures() -> None:
    some = [good(0.8, wrong=6, texts_per_second=100.0), good(0.6, wrong=3, texts_per_second=300.0)]
    facts = EmbeddingFacts(parameters=7, seconds=3.0, texts_per_second=200.0)
    found = row_result(ELMO, some, None, facts, DATA, (5, 6), None, shows_texts=False)
    assert [one.seed for one in found.seeds] == [5, 6]
    assert found.test_accuracy.mean == pytest.approx(1 - 4.5 / 30)
    assert found.development_accuracy.mean == pytest.approx(0.7)
    assert found.texts_per_second == pytest.approx(100)
    assert found.embedding_parameters == 7
    wrong = {(GOLD[row], 1 - GOLD[row]): 0 for row in range(6)}
    for row in range(6):
        wrong[GOLD[row], 1 - GOLD[row]] += 1
    assert {one.count for one in found.confusions} == set(wrong.values())
    assert all(one.text is None for each in found.confusions for one in each.examples)


def test_examples_are_rows_that_were_really_taken_for_it() -> None:
    found = row_result(
        ELMO, [good(0.5, wrong=9)], None, EmbeddingFacts(), DATA, (0,), None, shows_texts=True
    )
    for confusion in found.confusions:
        for example in confusion.examples:
            row = DATA.train_count + example.row
            assert DATA.labels[DATA.classes[row]] == confusion.label != confusion.predicted
            assert example.text == DATA.texts[row]
            assert example.row < 9
