"""What a network reads of static vectors is each word's vector, brought to one loudness."""

from __future__ import annotations

import numpy as np
import torch
from tests.study.toys import toy_data

from elmo.static.vectors import StaticVectors
from elmo.study.static_features import NoFeatures, StaticFeatures

DATA = toy_data()
TEXTS = DATA.rows_for(DATA.split, 1)
WORDS = ("bank", "loan", "water", "the")
VECTORS = StaticVectors(WORDS, np.arange(12, dtype=np.float32).reshape(4, 3) - 5)


def test_each_word_has_its_vector_and_padding_none() -> None:
    features = StaticFeatures(TEXTS, VECTORS)
    rows = [0, 7, 90]
    read = features.read(rows)
    loudness = np.sqrt((VECTORS.vectors.astype(np.float64) ** 2).mean())
    assert read.layers.shape == (1, 3, 7, 3)
    for place, row in enumerate(rows):
        expected = VECTORS.embed(DATA.words[row]) / loudness
        np.testing.assert_allclose(read.layers[0, place].numpy(), expected, rtol=1e-6)
    assert read.lengths.tolist() == [7, 7, 7]
    assert torch.equal(read.words, TEXTS.own_numbers(rows))


def test_the_scale_of_the_vectors_does_not_matter() -> None:
    louder = StaticVectors(WORDS, 100 * VECTORS.vectors)
    one, other = (StaticFeatures(TEXTS, vectors).read([3]) for vectors in (VECTORS, louder))
    torch.testing.assert_close(one.layers, other.layers, rtol=1e-6, atol=0)


def test_nothing_has_no_numbers_but_own_words() -> None:
    fewer = DATA.rows_for(DATA.split, 3)
    read = NoFeatures(TEXTS).for_texts(fewer).read([1, 2])
    assert read.layers.shape == (1, 2, 7, 0)
    assert torch.equal(read.words, fewer.own_numbers([1, 2]))
