"""The factorisation against NumPy's exact one, and words of like company."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array
from tests.static.topics import COLOURS, TOPICS, topical_texts

from elmo.errors import UserError
from elmo.static.config import SvdConfig
from elmo.static.documents import encode_texts
from elmo.static.progress import Progress
from elmo.static.svd import factorise, svd_vectors

RANK = 4


@pytest.fixture(scope="module")
def matrix() -> Any:
    """Sparse, symmetric, with well-parted singular values: only then are vectors unique."""
    rng = np.random.default_rng(0)
    basis = np.linalg.qr(rng.normal(size=(30, 30)))[0]
    return (basis * 2.0 ** -np.arange(30)) @ basis.T


@pytest.mark.parametrize("power", [0.0, 0.5, 1.0])
def test_vectors_are_those_of_numpy(matrix: Any, power: float) -> None:
    config = SvdConfig(dim=RANK, eigenvalue_power=power, iterations=7)
    found = factorise(csr_array(matrix), config)
    left, values, _ = np.linalg.svd(matrix)
    wanted = left[:, :RANK] * values[:RANK] ** power
    wanted *= np.sign((wanted * found).sum(axis=0))
    np.testing.assert_allclose(found, wanted, atol=1e-4)


def test_the_sign_is_fixed_whatever_the_seed(matrix: Any) -> None:
    first, second = (
        factorise(csr_array(matrix), SvdConfig(dim=RANK, iterations=7, seed=seed))
        for seed in (0, 1)
    )
    np.testing.assert_allclose(first, second, atol=1e-4)


def test_words_of_a_topic_are_near_each_other() -> None:
    vocabulary, texts = topical_texts()
    told: list[Progress] = []
    documents = encode_texts(texts, vocabulary)
    vectors = svd_vectors(documents, vocabulary, SvdConfig(dim=4, shift=1), told.append)
    assert vectors.words == vocabulary.words[3:]
    for topic in TOPICS:
        for word in topic:
            assert {near.word for near in vectors.nearest(word, 4)} < set(topic)
    assert [progress.stage.split()[0] for progress in told] == ["counting", "factorising"]


def test_the_same_seed_gives_the_same_vectors() -> None:
    vocabulary, texts = topical_texts()
    documents = encode_texts(texts, vocabulary)
    first, second = (
        svd_vectors(documents, vocabulary, SvdConfig(dim=3, shift=1)) for _ in range(2)
    )
    assert np.array_equal(first.vectors, second.vectors)


def test_more_numbers_than_words_are_refused() -> None:
    vocabulary, texts = topical_texts()
    with pytest.raises(UserError, match="use --dim 10 or less"):
        svd_vectors(encode_texts(texts, vocabulary), vocabulary, SvdConfig(dim=11))


def test_a_text_without_pairs_is_refused() -> None:
    vocabulary, _ = topical_texts()
    documents = encode_texts([[COLOURS[0]], []], vocabulary)
    with pytest.raises(UserError, match="no two words"):
        svd_vectors(documents, vocabulary, SvdConfig(dim=2, shift=1))
