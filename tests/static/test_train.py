"""From a file to vectors: the same as from its words, and only from those to train on."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.static.topics import topical_texts

from elmo.errors import ConfigError, UserError
from elmo.static.config import SkipGramConfig, SvdConfig
from elmo.static.documents import encode_texts
from elmo.static.train import static_vectors, train_static
from elmo.text.held_out import is_held_out
from elmo.text.vocabulary import SPECIAL_WORDS, Vocabulary

SVD = SvdConfig(dim=3, shift=1)
SKIP_GRAM = SkipGramConfig(dim=3, epochs=2)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text("\n".join(" ".join(text) for text in topical_texts()[1]), encoding="utf-8")
    return path


@pytest.mark.parametrize("config", [SVD, SKIP_GRAM], ids=["svd", "skip-gram"])
def test_a_file_gives_what_its_training_words_give(
    source: Path, config: SvdConfig | SkipGramConfig
) -> None:
    trained = train_static(str(source), config, held_out_share=0.2, cache=source.with_name("cache"))
    texts = [text for text in topical_texts()[1] if not is_held_out(text, 0.2)]
    assert 0 < trained.documents == len(texts) < 200
    assert trained.tokens == 8 * len(texts)

    # The vocabulary by hand: the most frequent word first, else as they appear in the file.
    words = [word for text in texts for word in text]
    listed = sorted(_in_order_of_appearance(), key=lambda word: -words.count(word))
    counts = tuple(words.count(word) for word in listed)
    vocabulary = Vocabulary((*SPECIAL_WORDS, *listed), (len(texts),) * 2 + (0, *counts))
    wanted = static_vectors(encode_texts(texts, vocabulary), vocabulary, config)
    assert trained.vectors.words == wanted.words == tuple(listed)
    assert np.array_equal(trained.vectors.vectors, wanted.vectors)


def _in_order_of_appearance() -> list[str]:
    return list(dict.fromkeys(word for text in topical_texts()[1] for word in text))


def test_mistakes_are_told_before_any_work(source: Path) -> None:
    cache = source.with_name("cache")
    with pytest.raises(ConfigError, match="window"):
        train_static(str(source), SvdConfig(window=0), cache=cache)
    with pytest.raises(UserError, match="held_out_share"):
        train_static(str(source), SVD, held_out_share=1, cache=cache)
    assert not cache.exists()
