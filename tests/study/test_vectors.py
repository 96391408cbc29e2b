"""Static vectors of a study are those of its training texts, held-out ones left out."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.study.toys import toy_data

from elmo.classify.own_words import own_vocabulary
from elmo.errors import UserError
from elmo.files import sha256
from elmo.static.config import SkipGramConfig, SvdConfig
from elmo.static.documents import encode_texts
from elmo.static.svd import svd_vectors
from elmo.static.vectors import StaticVectors
from elmo.study.vectors import make_vectors
from elmo.text.held_out import is_held_out

DATA = toy_data()
CONFIG = SvdConfig(window=2, dim=4, min_count=2)


def test_they_are_made_of_the_training_texts_alone(tmp_path: Path) -> None:
    path = tmp_path / "svd-2.bin"
    made = make_vectors(DATA, CONFIG, 0.3, path)
    texts = [text.split() for text in DATA.texts[:80]]
    kept = [words for words in texts if not is_held_out(words, 0.3)]
    assert len(kept) < 80
    vocabulary = own_vocabulary(kept, 2)
    expected = svd_vectors(encode_texts(kept, vocabulary), vocabulary, CONFIG)
    found = StaticVectors.load(path)
    assert found.words == expected.words
    np.testing.assert_array_equal(found.vectors, expected.vectors)
    assert (made.words, made.dim, made.sha256) == (len(found), 4, sha256(path))


def test_text_without_frequent_words_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no word is seen 1000 times"):
        make_vectors(DATA, SvdConfig(min_count=1000), 0.0, tmp_path / "x.bin")


def test_it_tells_how_far_it_is(tmp_path: Path) -> None:
    shares: list[float] = []
    config = SkipGramConfig(window=2, dim=4, min_count=2, epochs=30)
    make_vectors(DATA, config, 0.0, tmp_path / "skipgram-2.bin", shares.append)
    assert shares == [1000 / 2400, 2000 / 2400]
