"""What is kept on the way is what sorting everything at the end would give."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmo.contextual.nearest import Nearest, Neighbour, cosines
from elmo.contextual.neighbour_config import NeighbourConfig
from elmo.contextual.portions import TokenisedText
from elmo.contextual.word_in_text import WordInText

QUERY = WordInText(("a", "b"), 1)
VECTOR = np.array([1, 0], np.float32)
# Few words and few directions, so that there are ties and copies.
WORD = st.tuples(st.sampled_from("abB"), st.sampled_from([0, 30, 60, 90, 180]))
TEXTS = st.lists(st.lists(WORD, max_size=6), max_size=8)


def offer(texts: list[list[tuple[str, int]]], **settings: Any) -> list[Neighbour]:
    nearest = Nearest(QUERY, VECTOR, NeighbourConfig(**settings))
    for number, text in enumerate(texts):
        angles = np.radians([angle for _, angle in text])
        rows = np.stack([np.cos(angles), np.sin(angles)], axis=-1).astype(np.float32)
        nearest.take(TokenisedText(number, "", [word for word, _ in text]), rows)
    return nearest.ranked()


def key(one: Neighbour, distinct: str) -> object:
    if distinct == "none":
        return one.text_number, one.position
    if distinct == "word":
        return one.word.lower()
    padded = ["", "", *(word.lower() for word in one.words), "", ""]
    return tuple(padded[one.position : one.position + 5])


@given(TEXTS, st.integers(1, 5), st.booleans(), st.sampled_from(["phrase", "word", "none"]))
def test_the_nearest_of_all(texts: Any, count: int, same_word: bool, distinct: Any) -> None:
    everything = [
        (-round(float(np.cos(np.radians(angle))), 6), number, place, word)
        for number, text in enumerate(texts)
        for place, (word, angle) in enumerate(text)
        if [one for one, _ in text] != ["a", "b"] and (word == "b" or not same_word)
    ]
    wanted: dict[object, Neighbour] = {}
    for negative, number, place, word in sorted(everything):
        words = tuple(one for one, _ in texts[number])
        one = Neighbour(-negative, word, place, number, words)
        wanted.setdefault(key(one, distinct), one)
    found = offer(texts, count=count, same_word=same_word, distinct=distinct)
    assert found == list(wanted.values())[:count]


def test_angles_not_lengths() -> None:
    rows = np.array([[3, 4], [-30, 0], [0, 0], [1e-30, 0]], np.float32)
    np.testing.assert_allclose(cosines(rows, np.array([5, 0], np.float32)), [0.6, -1, 0, 1])
    assert cosines(rows, np.zeros(2, np.float32)).tolist() == [0, 0, 0, 0]
    assert cosines(rows[:0], rows[0]).shape == (0,)


def test_noise_does_not_change_the_order() -> None:
    nearest = Nearest(QUERY, VECTOR, NeighbourConfig(count=1, distinct="none"))
    for number, noise in enumerate((0.0, -1e-9, -1e-8)):
        row = np.array([[1, 1 + noise]])
        nearest.take(TokenisedText(number, "", ["c"]), row)  # pyright: ignore
    assert [one.text_number for one in nearest.ranked()] == [0]
    assert nearest.ranked()[0].similarity == pytest.approx(0.5**0.5, abs=1e-6)
