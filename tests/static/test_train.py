"""Skip-gram gives the same vectors each time, and finds what belongs together."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.static.topics import TOPICS, topical_texts

from elmo.errors import ConfigError
from elmo.static import skip_gram
from elmo.static.config import SkipGramConfig
from elmo.static.documents import encode_texts
from elmo.static.progress import Progress
from elmo.static.skip_gram import skip_gram_vectors
from elmo.static.vectors import StaticVectors

CONFIG = SkipGramConfig(dim=8, epochs=20, subsample=0)


def trained(config: SkipGramConfig = CONFIG) -> StaticVectors:
    vocabulary, texts = topical_texts()
    return skip_gram_vectors(encode_texts(texts, vocabulary), vocabulary, config)


def digest() -> str:
    """A name for the vectors, which another Python process can tell."""
    return hashlib.sha256(trained().vectors.tobytes()).hexdigest()


def test_words_of_a_topic_are_near_each_other() -> None:
    vectors = trained()
    assert vectors.words == TOPICS[0] + TOPICS[1]
    assert vectors.dim == 8
    for topic in TOPICS:
        for word in topic:
            assert {near.word for near in vectors.nearest(word, 4)} < set(topic)


def test_another_python_gives_the_same_vectors() -> None:
    """Python hashes words differently each time it starts, unless told how."""
    code = "from tests.static.test_skip_gram import digest; print(digest())"
    other = subprocess.run(
        [sys.executable, "-c", code],
        check=True,
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[2],
        env={**os.environ, "PYTHONHASHSEED": "7"},
    )
    assert other.stdout.strip() == digest()


def test_another_seed_gives_others() -> None:
    assert not np.allclose(trained().vectors, trained(replace(CONFIG, seed=1)).vectors)


def test_unknown_words_are_as_if_they_were_not_there() -> None:
    vocabulary, texts = topical_texts()
    mixed = [[piece for word in text for piece in (word, "unheard")] for text in texts]
    found = skip_gram_vectors(encode_texts(mixed, vocabulary), vocabulary, CONFIG)
    assert np.array_equal(found.vectors, trained().vectors)


def test_no_word_of_a_long_text_is_passed_over() -> None:
    vocabulary, texts = topical_texts()
    sentences = skip_gram._Sentences(
        encode_texts([[word for text in texts for word in text] * 14, [], texts[0]], vocabulary),
        vocabulary.words,
        1,
        lambda progress: None,
    )
    lengths = [len(sentence) for sentence in sentences]
    assert lengths == [10_000, 10_000, 2_400, 8]


def test_progress_counts_texts_of_all_epochs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(skip_gram, "REPORT_EVERY", 100)
    vocabulary, texts = topical_texts()
    told: list[Progress] = []
    config = replace(CONFIG, epochs=2)
    skip_gram_vectors(encode_texts(texts, vocabulary), vocabulary, config, told.append)
    assert [(one.done, one.total) for one in told] == [(n, 400) for n in (100, 200, 300, 400)]


def test_wrong_settings_are_told() -> None:
    with pytest.raises(ConfigError, match="epochs"):
        trained(replace(CONFIG, epochs=0))
