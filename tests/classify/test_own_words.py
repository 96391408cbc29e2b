"""Own vectors are for words that occur often enough, in an order that texts do not decide."""

from __future__ import annotations

from elmo.classify.own_words import own_vocabulary


def test_frequent_words_first_then_by_alphabet() -> None:
    texts = [["b", "a", "c"], ["a", "b"], ["a", "d", "d"]]
    own = own_vocabulary(texts, min_count=2)
    assert own.words[3:] == ("a", "b", "d")
    assert own.counts[3:] == (3, 2, 2)
    assert own == own_vocabulary(texts[::-1], min_count=2)
    assert own.id("c") == 2
