"""Neighbours are those that comparing all vectors finds, however the corpus is read."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.bilm import numpy_bilm
from tests.language.tiny_models import VOCABULARY, make_model

from elmo.contextual.embedder import Embedder
from elmo.contextual.neighbours import NeighbourConfig, Neighbours, find_neighbours
from elmo.contextual.progress import Progress
from elmo.errors import UserError

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
        (["a cat"], {"count": 0}, "count: must be positive"),
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
