"""Vectors are looked up, compared and pooled as a plain loop would."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st

from elmo.errors import UserError
from elmo.static.vectors import StaticVectors

WORDS = ("the", "bank", "river", "money", "rain", "loan")
TABLE = np.random.default_rng(0).normal(size=(len(WORDS), 4)).astype(np.float32)
VECTORS = StaticVectors(WORDS, TABLE)
texts = st.lists(st.lists(st.sampled_from([*WORDS, "unheard"]), max_size=6), max_size=8)


def cosine(first: Any, second: Any) -> float:
    return float(first @ second / (np.linalg.norm(first) * np.linalg.norm(second)))


@pytest.mark.parametrize("word", WORDS)
def test_nearest_against_brute_force(word: str) -> None:
    own = TABLE[WORDS.index(word)]
    others = {other: cosine(own, TABLE[place]) for place, other in enumerate(WORDS)}
    del others[word]
    wanted = sorted(others, key=lambda other: -others[other])
    found = VECTORS.nearest(word, 3)
    assert [near.word for near in found] == wanted[:3]
    similarities = [near.similarity for near in found]
    np.testing.assert_allclose(similarities, [others[w] for w in wanted[:3]], atol=1e-6)
    assert [near.word for near in VECTORS.nearest(word, 99)] == wanted
    assert VECTORS.nearest(word, 0) == []


def test_a_vector_of_zeros_is_near_to_nothing() -> None:
    vectors = StaticVectors(("a", "b", "none"), np.array([[1, 0], [-1, 0], [0, 0]], np.float32))
    assert [(n.word, n.similarity) for n in vectors.nearest("a")] == [("none", 0), ("b", -1)]
    assert [n.similarity for n in vectors.nearest("none")] == [0, 0]


def test_an_unknown_word_is_told_with_a_suggestion() -> None:
    with pytest.raises(UserError, match=r"'rivers' \(did you mean 'river'\?\)"):
        VECTORS.nearest("rivers")
    with pytest.raises(UserError, match="no vector for the word 'zzz';"):
        VECTORS.vector("zzz")


def test_unknown_words_are_zeros() -> None:
    found = VECTORS.embed(["loan", "unheard", "the"])
    assert found.dtype == np.float32
    assert np.array_equal(found, [TABLE[5], np.zeros(4), TABLE[0]])
    assert VECTORS.embed([]).shape == (0, 4)


@pytest.mark.parametrize("name", ["v.txt", "v.bin"])
def test_what_is_saved_is_loaded(tmp_path: Path, name: str) -> None:
    VECTORS.save(tmp_path / name)
    loaded = StaticVectors.load(tmp_path / name)
    assert loaded.words == WORDS
    assert np.array_equal(loaded.vectors, TABLE)
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_of_a_word_that_a_foreign_file_has_twice_the_first_counts(tmp_path: Path) -> None:
    (tmp_path / "v.txt").write_text("3 1\na 1\nb 2\na 3\n")
    assert StaticVectors.load(tmp_path / "v.txt").vectors.tolist() == [[1], [2]]


def test_a_file_without_vectors_is_refused(tmp_path: Path) -> None:
    (tmp_path / "v.txt").write_text("0 3\n")
    with pytest.raises(UserError, match="holds none"):
        StaticVectors.load(tmp_path / "v.txt")


def test_words_and_vectors_must_fit() -> None:
    with pytest.raises(UserError, match="2 words and vectors of shape"):
        StaticVectors(("a", "b"), TABLE)
    with pytest.raises(UserError, match="twice"):
        StaticVectors(("a", "a"), TABLE[:2])
