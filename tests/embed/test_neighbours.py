"""Neighbours are those that comparing all vectors finds, however the corpus is read."""

from __future__ import annotations

import logging
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.bilm import numpy_bilm
from tests.tiny_models import VOCABULARY, make_model

from elmo.embed.config import NeighbourConfig
from elmo.embed.embedder import Embedder, Progress, TokenisedText
from elmo.embed.neighbours import (
    Nearest,
    Neighbour,
    Neighbours,
    WordInText,
    cosines,
    draw,
    find_neighbours,
    find_word,
)
from elmo.errors import UserError
from elmo.text.tokenizer import TokenizerConfig

# A word is found where a reader would, and what is not there is told with what is.


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


EMBEDDER = Embedder(make_model())
SPELLED = Embedder(make_model("characters"))
SENTENCE = ["the", "naïve", "cat", "sat"]
WORD = st.sampled_from(["the", "cat", "sat", "naïve", "unheard"])
CORPUS = st.lists(st.lists(WORD, max_size=7), min_size=1, max_size=12)


def some_texts(count: int) -> list[list[str]]:
    random = np.random.default_rng(0)
    known = list(VOCABULARY.words[3:])
    return [[str(word) for word in random.choice(known, 1 + n % 7)] for n in range(count)]


def brute_force(embedder: Embedder, texts: list[list[str]], layer: Any) -> list[Any]:
    """(similarity, text, place) of every word, by NumPy alone, the nearest first."""

    def vectors(text: list[str]) -> Any:
        layers = numpy_bilm.activations(embedder.model, text)
        whole = {"top": layers[-1], "average": layers.mean(0), "mix": layers.mean(0)}
        return whole[layer] if layer in whole else layers[layer]

    query = vectors(SENTENCE)[2]
    found: list[Any] = []
    for number, text in enumerate(texts):
        for place, row in enumerate(vectors(text)):
            cosine = row @ query / np.sqrt((row @ row) * (query @ query))
            found.append((float(cosine), number, place))
    return sorted(found, key=lambda one: (-round(one[0], 6), *one[1:]))


@pytest.mark.parametrize("embedder", [EMBEDDER, SPELLED], ids=["words", "characters"])
@pytest.mark.parametrize("layer", [0, 1, "top", "average", "mix"])
def test_against_comparing_all(embedder: Embedder, layer: Any) -> None:
    texts = some_texts(40)
    config = NeighbourConfig(count=12, layer=layer, distinct="none", batch_tokens=16)
    found = find_neighbours(embedder, "cat", SENTENCE, texts, config).neighbours
    wanted = brute_force(embedder, texts, layer)[:12]
    assert [(one.text_number, one.position) for one in found] == [one[1:] for one in wanted]
    np.testing.assert_allclose(
        [one.similarity for one in found], [one[0] for one in wanted], rtol=0, atol=2e-6
    )
    for one in found:
        assert one.words == tuple(texts[one.text_number])
        assert one.word == one.words[one.position]


@given(
    CORPUS,
    st.sampled_from([2, 3, 7, 20]),
    st.sampled_from(["phrase", "word", "none"]),
    st.booleans(),
)
@settings(max_examples=15)
def test_how_the_corpus_is_read_together_changes_nothing(
    texts: list[list[str]], batch_tokens: int, distinct: Any, same_word: bool
) -> None:
    def found(size: int) -> Neighbours:
        config = NeighbourConfig(count=3, distinct=distinct, same_word=same_word, batch_tokens=size)
        return find_neighbours(EMBEDDER, "cat", SENTENCE, texts, config)

    assert found(batch_tokens) == found(4096)


def test_the_sentence_itself_is_left_out() -> None:
    texts = [SENTENCE, [*SENTENCE, "on"], SENTENCE]
    found = find_neighbours(EMBEDDER, 2, " ".join(SENTENCE), texts)
    assert {one.text_number for one in found.neighbours} == {1}
    assert (found.query.words, found.query.word) == (tuple(SENTENCE), "cat")


def test_only_texts_with_the_same_word_are_read() -> None:
    texts = some_texts(60)
    with_cat = [number for number, text in enumerate(texts) if "cat" in text]
    told: list[Progress] = []
    config = NeighbourConfig(same_word=True, distinct="none", count=100, texts=len(with_cat))
    found = find_neighbours(EMBEDDER, "cat", SENTENCE, texts, config, progress=told.append)
    assert found.texts == len(with_cat) == told[-1].texts == told[-1].total
    assert {one.text_number for one in found.neighbours} == set(with_cat)
    assert {one.word for one in found.neighbours} == {"cat"}
    assert len(found.neighbours) == sum(text.count("cat") for text in texts)


def test_a_sample_is_told_and_keeps_the_numbers(caplog: pytest.LogCaptureFixture) -> None:
    texts = some_texts(60)
    config = NeighbourConfig(texts=20, count=500, distinct="none")
    with caplog.at_level(logging.INFO, logger="elmo"):
        found = find_neighbours(EMBEDDER, "cat", SENTENCE, iter(texts), config)
    assert caplog.messages == ["searching a random sample: 20 of 60 texts"]
    numbers = {one.text_number for one in found.neighbours}
    assert (found.texts, len(numbers)) == (20, 20)
    assert numbers != set(range(20))
    assert all(one.words == tuple(texts[one.text_number]) for one in found.neighbours)


@pytest.mark.parametrize(
    ("corpus", "settings", "message"),
    [
        ("the cat sat", {}, "put it in a list"),
        (["a cat"], {"layer": 3}, "layers 0 to 2"),
        (["a cat"], {"count": 0}, "count: expected at least 1"),
        (["a cat", ["a", 7]], {}, "text 1: expected words, got int"),
        (["a cat", ["a", 7]], {"same_word": True}, "text 1: expected words, got int"),
    ],
)
def test_mistakes_are_told(corpus: Any, settings: Any, message: str) -> None:
    with pytest.raises(UserError, match=message):
        find_neighbours(EMBEDDER, "cat", SENTENCE, corpus, NeighbourConfig(**settings))


def test_texts_without_words_have_no_neighbours() -> None:
    assert find_neighbours(EMBEDDER, "cat", SENTENCE, [[], []]).neighbours == ()
    assert find_neighbours(EMBEDDER, "cat", SENTENCE, []).neighbours == ()


# What is kept on the way is what sorting everything at the end would give.


QUERY = WordInText(("a", "b"), 1)
VECTOR = np.array([1, 0], np.float32)
# Few words and few directions, so that there are ties and copies.
WORD_nearest = st.tuples(st.sampled_from("abB"), st.sampled_from([0, 30, 60, 90, 180]))
TEXTS = st.lists(st.lists(WORD_nearest, max_size=6), max_size=8)


def offer(texts: list[list[tuple[str, int]]], **settings: Any) -> list[Neighbour]:
    nearest = Nearest(QUERY, VECTOR, NeighbourConfig(**settings))
    for number, text in enumerate(texts):
        angles = np.radians([angle for _, angle in text])
        rows = np.stack([np.cos(angles), np.sin(angles)], axis=-1).astype(np.float32)
        nearest.take(TokenisedText(number, "", [word for word, _ in text]), rows)
    return nearest.ranked()


def key(one: Neighbour, distinct: str) -> object:
    if distinct == "none":
        return one.text_number, one.position
    if distinct == "word":
        return one.word.lower()
    padded = ["", "", *(word.lower() for word in one.words), "", ""]
    return tuple(padded[one.position : one.position + 5])


@given(TEXTS, st.integers(1, 5), st.booleans(), st.sampled_from(["phrase", "word", "none"]))
def test_the_nearest_of_all(texts: Any, count: int, same_word: bool, distinct: Any) -> None:
    everything = [
        (-round(float(np.cos(np.radians(angle))), 6), number, place, word)
        for number, text in enumerate(texts)
        for place, (word, angle) in enumerate(text)
        if [one for one, _ in text] != ["a", "b"] and (word == "b" or not same_word)
    ]
    wanted: dict[object, Neighbour] = {}
    for negative, number, place, word in sorted(everything):
        words = tuple(one for one, _ in texts[number])
        one = Neighbour(-negative, word, place, number, words)
        wanted.setdefault(key(one, distinct), one)
    found = offer(texts, count=count, same_word=same_word, distinct=distinct)
    assert found == list(wanted.values())[:count]


def test_angles_not_lengths() -> None:
    rows = np.array([[3, 4], [-30, 0], [0, 0], [1e-30, 0]], np.float32)
    np.testing.assert_allclose(cosines(rows, np.array([5, 0], np.float32)), [0.6, -1, 0, 1])
    assert cosines(rows, np.zeros(2, np.float32)).tolist() == [0, 0, 0, 0]
    assert cosines(rows[:0], rows[0]).shape == (0,)


def test_noise_does_not_change_the_order() -> None:
    nearest = Nearest(QUERY, VECTOR, NeighbourConfig(count=1, distinct="none"))
    for number, noise in enumerate((0.0, -1e-9, -1e-8)):
        row = np.array([[1, 1 + noise]])
        nearest.take(TokenisedText(number, "", ["c"]), row)  # pyright: ignore
    assert [one.text_number for one in nearest.ranked()] == [0]
    assert nearest.ranked()[0].similarity == pytest.approx(0.5**0.5, abs=1e-6)


# A sample is some of the things, in order, fair, and the same for the same seed.


@given(st.integers(0, 60), st.integers(1, 80), st.integers(0, 5))
def test_a_sample_is_some_of_all_in_their_order(count: int, size: int, seed: int) -> None:
    # What is drawn may be of any kind: even things that have no order.
    things = [{"number": number} for number in range(count)]
    sample, total = draw(iter(things), size, seed)
    numbers = [one["number"] for one in sample]
    assert numbers == sorted(set(numbers))
    assert set(numbers) <= set(range(count))
    assert (len(numbers), total) == (min(size, count), count)
    assert draw(things, size, seed) == (sample, total)


def test_each_is_drawn_equally_often() -> None:
    drawn = Counter(item for seed in range(3000) for item in draw(range(10), 3, seed)[0])
    # 900 each are expected, with a standard deviation of 25.
    assert all(abs(drawn[item] - 900) < 120 for item in range(10))
