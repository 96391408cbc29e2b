"""Each word's probability is what reading the whole prefix, or suffix, anew would give."""

from __future__ import annotations

import math
from dataclasses import asdict, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.bilm import numpy_bilm
from tests.language.tiny_models import make_model

from elmo.checkpoint import LoadedModel
from elmo.errors import UserError
from elmo.language.evaluate import evaluate
from elmo.language.score import TextScore, score
from elmo.text.batches import sentence_batch
from elmo.text.batching_config import Batching
from elmo.text.tokenizers import TokenizerConfig

WORDS = st.sampled_from(["the", "cat", "sat", "naïve", "雨", "unheard", "of"])
TEXTS = st.lists(st.lists(WORDS, min_size=1, max_size=9), min_size=1, max_size=5)


def brute_force(loaded: LoadedModel, words: list[str], *, backward: bool) -> list[float]:
    """Read the words before each one anew, and look up its probability; the boundary is last."""
    model = loaded.model
    known = {word: place for place, word in enumerate(model.vocabulary.words)}
    stack = model.backward_stack if backward else model.forward_stack
    path = ["</S>", *words[::-1], "<S>"] if backward else ["<S>", *words, "</S>"]
    return [
        float(numpy_bilm.next_word(model, stack, path[:end])[known.get(path[end], 2)])
        for end in range(1, len(path))
    ]


def values(scored: TextScore) -> list[float]:
    words = [value for one in scored.words for value in (one.forward, one.backward)]
    ends = [scored.forward, scored.backward]
    return words + [value for one in ends for value in asdict(one).values()]


@pytest.mark.parametrize("kind", ["words", "characters", "both"])
def test_scores_are_those_of_reading_each_prefix_anew(kind: str) -> None:
    loaded = make_model(kind)
    words = ["the", "unheard", "cat", "雨"]
    (scored,) = score(loaded, [words])
    ahead = brute_force(loaded, words, backward=False)
    behind = brute_force(loaded, words, backward=True)
    assert [one.word for one in scored.words] == words
    assert [one.known for one in scored.words] == [True, False, True, True]
    np.testing.assert_allclose([one.forward for one in scored.words], ahead[:-1], atol=1e-9)
    np.testing.assert_allclose([one.backward for one in scored.words], behind[-2::-1], atol=1e-9)
    for found, expected in ((scored.forward, ahead), (scored.backward, behind)):
        assert found.boundary == pytest.approx(expected[-1], abs=1e-9)
        assert found.total == pytest.approx(sum(expected), abs=1e-9)
        assert found.perplexity == pytest.approx(math.exp(-np.mean(expected)))
    assert scored.perplexity == pytest.approx(math.exp(-np.mean(ahead + behind)))


@given(TEXTS, st.integers(2, 6), st.integers(0, 20))
def test_neither_batch_nor_window_matters(texts: list[list[str]], window: int, room: int) -> None:
    loaded = make_model("both", "adaptive")
    cut = score(loaded, texts, Batching(window=window, batch_tokens=window + room))
    for together, text in zip(cut, texts, strict=True):
        (alone,) = score(loaded, [text])
        assert [one.word for one in together.words] == text
        np.testing.assert_allclose(values(together), values(alone), atol=1e-9)


@pytest.mark.parametrize("loss", ["full", "sampled", "adaptive"])
def test_scores_add_up_to_the_loss_of_an_evaluation(loss: str) -> None:
    loaded = make_model("words", loss)
    texts = [["the", "cat"], ["a", "dog", "sat", "on", "the", "mat"]]
    scores = score(loaded, texts)
    batch = sentence_batch(texts, loaded.model.vocabulary, spelled=False)
    expected = evaluate(loaded.model, [batch])
    forward = -sum(one.forward.total for one in scores) / expected.forward.targets
    assert forward == pytest.approx(expected.forward.loss)


def test_strings_are_cut_as_the_model_says() -> None:
    loaded = make_model()
    spaces = replace(loaded, tokenizer=TokenizerConfig(tokenizer="whitespace", lowercase=True))
    assert [one.word for one in score(loaded, ["the cat's mat."])[0].words] == [
        "the", "cat", "'s", "mat", ".",
    ]  # fmt: skip
    assert [one.word for one in score(spaces, ["The mat."])[0].words] == ["the", "mat."]
    own = replace(
        loaded,
        tokenizer=TokenizerConfig(tokenizer="custom"),
        custom_tokenizer=lambda text: text.split("-"),
    )
    assert [one.word for one in score(own, ["the-cat"])[0].words] == ["the", "cat"]


def test_a_custom_tokenizer_is_needed_for_strings_only() -> None:
    loaded = replace(make_model(), tokenizer=TokenizerConfig(tokenizer="custom"))
    assert len(score(loaded, [["the", "cat"]])) == 1
    with pytest.raises(UserError, match="tokenizer function"):
        score(loaded, ["the cat"])


def test_bad_texts_are_refused() -> None:
    with pytest.raises(UserError, match="text 2 of 2 holds no word"):
        score(make_model(), ["the", " "])
    with pytest.raises(UserError, match="holds '</S>'"):
        score(make_model(), [["the", "</S>"]])
    assert score(make_model(), []) == []
