"""Words that can be found among tokens, each with several senses."""

from __future__ import annotations

from elmo.study.news.senses import SENSES
from elmo.text.tokenizers import tokenize_words


def test_there_are_enough_words_and_senses() -> None:
    assert len(SENSES) >= 16
    assert {"bank", "pitch", "court", "Apple", "run"} <= set(SENSES)
    assert all(len(senses) >= 2 for senses in SENSES.values())


def test_every_word_is_one_token() -> None:
    for word in SENSES:
        assert tokenize_words(f"The {word} was there.")[1] == word


def test_every_sense_is_explained_in_other_words() -> None:
    for word, senses in SENSES.items():
        assert len(set(senses.values())) == len(senses)
        assert not any(word in tokenize_words(gloss) for gloss in senses.values())
