"""Counts against a plain double loop, whatever texts, window and portions are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmo.static import cooccurrence
from elmo.static.cooccurrence import count_pairs

WORDS = 7
"""Three special ones and four others."""
texts = st.lists(st.lists(st.integers(0, WORDS - 1), max_size=9), max_size=6)


def by_loops(documents: list[list[int]], window: int, weighted: bool) -> Any:
    counts = np.zeros((WORDS, WORDS))
    for document in documents:
        for here, word in enumerate(document):
            for there, context in enumerate(document):
                distance = abs(here - there)
                if 0 < distance <= window and word > 2 and context > 2:
                    counts[word, context] += 1 / distance if weighted else 1
    return counts


def as_ids(documents: list[list[int]]) -> list[Any]:
    return [np.array(document, np.int64) for document in documents]


@given(texts, st.integers(1, 12), st.booleans(), st.integers(1, 20))
def test_counts_are_those_of_a_double_loop(
    documents: list[list[int]], window: int, weighted: bool, at_once: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cooccurrence, "TOKENS_AT_ONCE", at_once)
        counts = count_pairs(as_ids(documents), WORDS, window=window, distance_weighting=weighted)
    found = counts.toarray()
    np.testing.assert_allclose(found, by_loops(documents, window, weighted), rtol=1e-12)
    assert np.array_equal(found, found.T)


def test_a_pair_across_two_texts_is_none() -> None:
    counts = count_pairs(as_ids([[3], [4, 5], [], [6]]), WORDS, window=5)
    assert counts.toarray().nonzero()[0].tolist() == [4, 5]


def test_an_unknown_word_takes_up_its_place() -> None:
    counts = count_pairs(as_ids([[3, 2, 4]]), WORDS, window=1)
    assert counts.nnz == 0
