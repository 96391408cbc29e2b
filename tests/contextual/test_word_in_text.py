"""A word is found where a reader would, and what is not there is told with what is."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest
from tests.language.tiny_models import make_model

from elmo.contextual.word_in_text import find_word
from elmo.errors import UserError
from elmo.text.tokenizers import TokenizerConfig

LOADED = make_model()
TEXT = "The cat, a cat."
WORDS = ("The", "cat", ",", "a", "cat", ".")


@pytest.mark.parametrize(
    ("word", "occurrence", "position"), [("a", 1, 3), ("cat", 1, 1), ("cat", 2, 4), (4, 1, 4)]
)
def test_a_word_is_named_or_numbered(word: str | int, occurrence: int, position: int) -> None:
    found = find_word(LOADED, word, TEXT, occurrence)
    assert (found.words, found.position, found.word) == (WORDS, position, WORDS[position])
    assert find_word(LOADED, word, list(WORDS), occurrence) == found


def test_the_choice_among_several_is_told(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="elmo"):
        find_word(LOADED, "a", TEXT)
        assert not caplog.messages
        find_word(LOADED, "cat", TEXT)
    assert caplog.messages == ["'cat' is in the sentence 2 times; taken: 1"]


def test_a_model_in_lower_case_finds_the_word_as_it_was_written() -> None:
    lower = replace(LOADED, tokenizer=TokenizerConfig(lowercase=True))
    assert find_word(lower, "The", TEXT).word == "the"
    # Words that come cut already are as they are.
    assert find_word(lower, "The", list(WORDS)).word == "The"


@pytest.mark.parametrize(
    ("word", "text", "occurrence", "message"),
    [
        ("cats", TEXT, 1, r"'cats' is not .* mean 'cat'\?\); its words are: The cat , a cat \."),
        ("dog", [], 1, r"its words are: \(none\)"),
        ("cat", TEXT, 3, "occurrence 3 of 'cat' was asked for, but the sentence has 2"),
        ("cat", TEXT, 0, "occurrence 0"),
        (6, TEXT, 1, "word 6 was asked for, but the sentence has 6 words"),
        (-1, TEXT, 1, "word -1"),
    ],
)
def test_what_is_not_there_is_told(
    word: str | int, text: str | list[str], occurrence: int, message: str
) -> None:
    with pytest.raises(UserError, match=message):
        find_word(LOADED, word, text, occurrence)
