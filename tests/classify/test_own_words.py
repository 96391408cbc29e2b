"""Own vectors are for words that occur often enough, in an order that texts do not decide, and for
those that vectors are given for."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given as given_examples
from hypothesis import settings
from hypothesis import strategies as st

from elmo.classify.own_words import (
    begin_as_given,
    check_given,
    own_numbers,
    own_vocabulary,
    with_given,
)
from elmo.errors import UserError
from elmo.static.vectors import StaticVectors
from elmo.text.vocabulary import UNKNOWN


def test_frequent_words_first_then_by_alphabet() -> None:
    texts = [["b", "a", "c"], ["a", "b"], ["a", "d", "d"]]
    own = own_vocabulary(texts, min_count=2)
    assert own.words[3:] == ("a", "b", "d")
    assert own.counts[3:] == (3, 2, 2)
    assert own == own_vocabulary(texts[::-1], min_count=2)
    assert own.id("c") == 2


def given(rows: dict[str, list[float]]) -> StaticVectors:
    return StaticVectors(tuple(rows), np.array(list(rows.values()), np.float32))


@settings(max_examples=50)
@given_examples(st.lists(st.sampled_from(["Cat", "cat", "CAT", "Dog", "yak"])), st.booleans())
def test_a_word_without_a_row_takes_that_of_its_lower_case_form(
    words: list[str], lower_case: bool
) -> None:
    own = own_vocabulary([["Cat", "cat", "dog"]], 1)
    rows = {"Cat": own.id("Cat"), "cat": own.id("cat"), "CAT": own.id("cat"), "Dog": own.id("dog")}
    known = rows if lower_case else {word: rows[word] for word in ("Cat", "cat")}
    expected = [known.get(word, UNKNOWN) for word in words]
    assert own_numbers(own, words, lower_case).tolist() == expected


def test_given_words_come_behind_and_begin_as_given() -> None:
    own = own_vocabulary([["Cat", "Cat", "sat", "the"]], 1)
    vectors = given(
        {"the": [1, 2], "cat": [3, 4], "yak": [5, 6], "two words": [7, 8], "<unk>": [9, 9]}
    )
    grown = with_given(own, vectors)
    assert grown.words == (*own.words, "cat", "yak", "<unk>")
    torch.manual_seed(0)
    table = torch.randn(len(grown), 3)
    drawn = table.clone()
    begin_as_given(table, grown, vectors)
    rows = {word: row.tolist() for word, row in zip(grown.words, table, strict=True)}
    first = {word: row.tolist() for word, row in zip(grown.words, drawn, strict=True)}
    assert rows["the"] == [1, 2, first["the"][2]]
    assert rows["Cat"] == [3, 4, first["Cat"][2]]
    assert rows["cat"] == [3, 4, 0]
    assert rows["yak"] == [5, 6, 0]
    untouched = ("<S>", "</S>", "<UNK>", "sat")
    assert {word: rows[word] for word in untouched} == {word: first[word] for word in untouched}


def test_vectors_longer_than_own_ones_are_refused() -> None:
    check_given(given({"cat": [1, 2, 3]}), 3)
    with pytest.raises(UserError, match="--own-words 4 or more"):
        check_given(given({"cat": [1, 2, 3, 4]}), 3)


def test_vectors_of_other_words_are_refused() -> None:
    vectors = given({"yak": [1, 2]})
    own = with_given(own_vocabulary([["cat"]], 1), vectors)
    with pytest.raises(UserError, match="none of the words"):
        begin_as_given(torch.zeros(len(own), 3), own, vectors)
