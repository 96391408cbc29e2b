"""How well embeddings tell the senses of words apart."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmo.errors import UserError
from elmo.study.news import sense_accuracy

# The score is that of comparing all occurrences one by one.


def scores(accuracy: float, chance: float, occurrences: int) -> dict[str, float]:
    return {"accuracy": accuracy, "chance": chance, "occurrences": occurrences}


class Occurrence(NamedTuple):
    vector: tuple[int, int]
    word: str
    sense: str
    row: int


# Few directions, words and texts, so that there are ties, zeros and words of one text only.
OCCURRENCES = st.builds(
    Occurrence,
    st.tuples(st.integers(-2, 2), st.integers(-2, 2)),
    st.sampled_from(["bank", "Bank", "run"]),
    st.sampled_from(["x", "y", "z"]),
    st.integers(0, 4),
)


def cosine(one: tuple[int, int], other: tuple[int, int]) -> float:
    product = math.hypot(*one) * math.hypot(*other)
    return (one[0] * other[0] + one[1] * other[1]) / product if product else 0


def one_by_one(occurrences: list[Occurrence]) -> dict[str, float] | None:
    right: list[float] = []
    chance: list[float] = []
    for one in occurrences:
        others = [x for x in occurrences if x.word == one.word and x.row != one.row]
        if others:
            largest = max(cosine(one.vector, other.vector) for other in others)
            nearest = [x for x in others if cosine(one.vector, x.vector) > largest - 1e-9]
            right.append(np.mean([x.sense == one.sense for x in nearest]).item())
            chance.append(np.mean([x.sense == one.sense for x in others]).item())
    if not right:
        return None
    return scores(np.mean(right).item(), np.mean(chance).item(), len(right))


def score(occurrences: list[Occurrence], dtype: type = np.float32) -> dict[str, float]:
    vectors = np.array([one.vector for one in occurrences], dtype).reshape(-1, 2)
    _, words, senses, rows = zip(*occurrences, strict=True) if occurrences else ((),) * 4
    return sense_accuracy(vectors, words, senses, rows)


@given(st.lists(OCCURRENCES, max_size=14))
def test_one_by_one(occurrences: list[Occurrence]) -> None:
    wanted = one_by_one(occurrences)
    if wanted is None:
        with pytest.raises(UserError, match="occurs in two texts"):
            score(occurrences)
        return
    found = score(occurrences)
    assert found["occurrences"] == wanted["occurrences"]
    assert found["accuracy"] == pytest.approx(wanted["accuracy"])
    assert found["chance"] == pytest.approx(wanted["chance"])


@given(st.lists(OCCURRENCES, min_size=2, max_size=40), st.integers(0, 9))
def test_a_vector_a_word_scores_exactly_chance(occurrences: list[Occurrence], seed: int) -> None:
    if one_by_one(occurrences) is None:
        return
    words = [one.word for one in occurrences]
    drawn = np.random.default_rng(seed).normal(size=(3, 50))
    static = dict(zip(("bank", "Bank", "run"), drawn, strict=True))
    vectors = np.array([static[word] for word in words], np.float32)
    found = sense_accuracy(
        vectors, words, [one.sense for one in occurrences], [one.row for one in occurrences]
    )
    assert found["accuracy"] == found["chance"]


def test_lengths_of_vectors_do_not_count() -> None:
    vectors = np.array([[1, 0], [1000, 1], [0, 0.001], [0, 5]])
    assert sense_accuracy(vectors, ["bank"] * 4, list("xxyy"), range(4)) == scores(1, 1 / 3, 4)


def test_the_same_text_does_not_count() -> None:
    vectors = np.array([[1, 0], [1, 0], [0, 1.0]])
    found = sense_accuracy(vectors, ["bank"] * 3, list("xxy"), [0, 0, 1])
    assert found == scores(0, 0, 3)
