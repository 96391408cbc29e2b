"""Random text has the words, lengths and frequencies asked for."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from elmo.text.corpus import load_corpus
from zipf_text import write_zipf_corpus, zipf


def test_it_is_a_corpus(tmp_path: Path):
    corpus = load_corpus(write_zipf_corpus(tmp_path / "a", words=50, length=7, tokens=7000))
    (shard,) = corpus.train
    assert (len(corpus.words), corpus.tokens, corpus.held_out.documents) == (50, 7000, 0)
    assert set(shard.lengths.tolist()) == {9}
    assert list(corpus.counts[3:]) == sorted(corpus.counts[3:], reverse=True)


def test_the_second_word_is_half_as_frequent(tmp_path: Path):
    corpus = load_corpus(write_zipf_corpus(tmp_path, words=50, length=10, tokens=50_000))
    (shard,) = corpus.train
    counts = np.bincount(shard.ids, minlength=50)
    np.testing.assert_allclose(counts[3:] / 50_000, zipf(50)[:47], atol=0.01)
    assert 1.8 < counts[3] / counts[4] < 2.2
