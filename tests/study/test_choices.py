"""Settings are chosen by what development rows can tell."""

from __future__ import annotations

from types import SimpleNamespace

from hypothesis import given
from hypothesis import strategies as st

from elmo.study.choices import NETWORKS, SVMS, choose
from elmo.study.comparison import Row
from elmo.study.jobs import Failure

NETWORK = Row("average", "Average", "elmo")
SVM = Row("tfidf", "TF-IDF", "control", "tfidf")
ROWS = 4730
"""Of which a standard error at an accuracy of 0.9 is 0.0044."""


def outcomes(row: Row, *accuracies: float | None) -> dict[str, object]:
    return {
        f"tuning-{row.name}-{number}": Failure("astray")
        if accuracy is None
        else SimpleNamespace(development_accuracy=accuracy)
        for number, accuracy in enumerate(accuracies)
    }


def chosen(row: Row, *accuracies: float | None) -> object:
    choice = choose(row, outcomes(row, *accuracies), ROWS)
    return None if choice is None else choice.best


def test_a_lead_within_a_standard_error_is_none() -> None:
    assert chosen(NETWORK, 0.896, 0.900, 0.899) == NETWORKS[0]
    assert chosen(NETWORK, 0.895, 0.897, 0.900) == NETWORKS[1]
    assert chosen(NETWORK, 0.880, 0.890, 0.900) == NETWORKS[2]


def test_what_was_tried_on_all_rows_is_taken_as_it_is() -> None:
    assert chosen(SVM, 0.9034, 0.9082, 0.9089, 0.9082) == SVMS[2]
    assert chosen(SVM, 0.9, 0.9, 0.9, 0.8) == SVMS[0]


def test_settings_that_fail_are_passed_over() -> None:
    assert chosen(NETWORK, None, 0.9, 0.9) == NETWORKS[1]
    assert chosen(NETWORK, None, None, None) is None
    choice = choose(NETWORK, outcomes(NETWORK, None, 0.9, 0.8), ROWS)
    assert choice is not None
    assert [one.development_accuracy for one in choice.candidates] == [0.9, 0.8]


@given(st.lists(st.floats(0, 1), min_size=3, max_size=3))
def test_the_choice_is_never_far_below_the_best(accuracies: list[float]) -> None:
    best = chosen(NETWORK, *accuracies)
    accuracy = accuracies[[*NETWORKS].index(best)]  # pyright: ignore
    highest = max(accuracies)
    assert (highest - accuracy) ** 2 <= highest * (1 - highest) / ROWS + 1e-12
