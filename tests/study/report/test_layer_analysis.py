"""Weights are called stable where every seed agrees, and draws outdone where enough were made."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.study.report.builder import study_results

from elmo.study.report.layer_analysis import draws_sentences, rank_p, weights_sentence
from elmo.study.results import Draw, Draws, RowResult

ROWS = {row.name: row for row in study_results().rows}
Weights = tuple[float, ...]


def row_with(*weights: Weights | None, name: str = "trainable") -> RowResult:
    seed = ROWS["trainable"].seeds[0]
    seeds = tuple(
        replace(seed, seed=number, layer_weights=one) for number, one in enumerate(weights)
    )
    return replace(ROWS[name], seeds=seeds)


def test_seeds_that_agree() -> None:
    text = weights_sentence(row_with((0.2, 0.5, 0.3), (0.1, 0.7, 0.2)))
    assert text == (
        "ELMo (trainable λs): layer 1 weighs most for each of 2 seeds (0.5000 and 0.7000)."
    )


def test_seeds_that_do_not() -> None:
    text = weights_sentence(row_with((0.2, 0.5, 0.3), (0.1, 0.2, 0.7), (0.2, 0.6, 0.2)))
    assert text.endswith("changes with the seed: layer 1 for 2 seeds and layer 2 for 1 seed.")


def test_one_seed_is_not_called_stable() -> None:
    text = weights_sentence(row_with((0.2, 0.5, 0.3)))
    assert text.endswith("layer 1 weighs most (0.5000); one seed does not tell if that is stable.")


def test_weights_that_hardly_differ_have_no_heaviest() -> None:
    text = weights_sentence(row_with((0.33, 0.35, 0.32), (0.34, 0.32, 0.34)))
    assert "weighs most" not in text
    assert "within 0.05 of a plain average" in text


def test_drawn_weights_are_not_called_learned() -> None:
    assert "whose weights are drawn" in weights_sentence(row_with((0.7, 0.2, 0.1), name="frozen"))
    assert "drawn" not in weights_sentence(row_with((0.7, 0.2, 0.1)))
    assert weights_sentence(row_with(None)) == ""


def drawn(accuracies: list[float], learned: float) -> Draws:
    draws = tuple(
        Draw(seed=n, layer_weights=(0.5, 0.5), development_accuracy=one, test_accuracy=one)
        for n, one in enumerate(accuracies)
    )
    return Draws(train_rows=10_000, draws=draws, trainable_test_accuracy=learned)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=40), st.floats(0, 1))
def test_learning_is_above_drawing_only_beyond_chance(draws: list[float], learned: float) -> None:
    found = drawn(draws, learned)
    text = " ".join(draws_sentences(found))
    below = sum(one < learned for one in draws)
    assert f"{below} of " in text
    assert rank_p(found) == pytest.approx((len(draws) - below + 1) / (len(draws) + 1))
    assert ("more than chance explains" in text) == (rank_p(found) < 0.05)
    assert ("which may be chance" in text) == (rank_p(found) >= 0.05)


def test_draws_as_they_read() -> None:
    first, second = draws_sentences(drawn([0.90, 0.91, 0.92], 0.915))
    assert first == (
        "3 draws of frozen weights, each trained on 10,000 rows, give test accuracies from 0.9000 "
        "to 0.9200 (mean 0.9100, deviation 0.0100)."
    )
    assert second.startswith("Learned weights give 0.9150 on the same rows; 2 of 3 draws give less")
    (alone, _) = draws_sentences(drawn([0.90], 0.915))
    assert alone == (
        "One draw of frozen weights, trained on 10,000 rows, gives a test accuracy of 0.9000."
    )
    assert draws_sentences(drawn([], 0.9)) == []


def test_twenty_draws_are_enough_where_all_are_lower() -> None:
    assert "more than chance explains" in draws_sentences(drawn([0.9] * 20, 0.91))[1]
    assert "which may be chance" in draws_sentences(drawn([0.9] * 19, 0.91))[1].replace(
        "\N{NO-BREAK SPACE}", " "
    )
