"""Candidates for a blank are those that reading either side anew, word by word, would give."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.bilm import numpy_bilm
from tests.language.tiny_models import make_model

from elmo.checkpoint import LoadedModel
from elmo.errors import UserError
from elmo.language.blanks import find_blanks
from elmo.language.predict import Candidate, combine, predict
from elmo.text.batching_config import Batching


def normalised(log_weights: numpy_bilm.Array) -> numpy_bilm.Array:
    weights = np.exp(log_weights - log_weights.max())
    return weights / weights.sum()


def brute_force(
    loaded: LoadedModel, words: list[str], place: int
) -> tuple[numpy_bilm.Array, numpy_bilm.Array, numpy_bilm.Array]:
    """The chances of all words but the special ones: from the left, from the right, from both."""
    model = loaded.model
    left = numpy_bilm.next_word(model, model.forward_stack, ["<S>", *words[:place]])[3:]
    right = numpy_bilm.next_word(model, model.backward_stack, ["</S>", *words[:place:-1]])[3:]
    counts = np.array(model.vocabulary.counts[3:], float)
    both = np.exp(left) * np.exp(right) / (counts / counts.sum())
    return normalised(left), normalised(right), both / both.sum()


def check(
    loaded: LoadedModel, candidates: tuple[Candidate, ...], expected: numpy_bilm.Array
) -> None:
    order = np.argsort(-expected)[: len(candidates)]
    assert [one.word for one in candidates] == [
        loaded.model.vocabulary.words[3 + place] for place in order
    ]
    np.testing.assert_allclose([one.probability for one in candidates], expected[order], atol=1e-9)


@pytest.mark.parametrize("kind", ["words", "characters", "both"])
def test_candidates_are_those_of_both_sides(kind: str) -> None:
    loaded = make_model(kind)
    (found,) = predict(loaded, ["the unheard ___ sat on"], top=4)
    (blank,) = found.blanks
    expected = brute_force(loaded, ["the", "unheard", "", "sat", "on"], 2)
    assert blank.place == 2
    check(loaded, blank.forward, expected[0])
    check(loaded, blank.backward, expected[1])
    check(loaded, blank.combined, expected[2])
    assert len(blank.forward) == 4
    assert found.words == ("the", "unheard", blank.combined[0].word, "sat", "on")


@pytest.mark.parametrize("window", [2, 256])
def test_each_of_several_blanks_takes_the_others_as_unknown(window: int) -> None:
    loaded = make_model("both")
    texts = ["___ cat ____ on the _____", "a ___"]
    batching = Batching(window=window, batch_tokens=max(window, 20))
    found, short = predict(loaded, texts, batching=batching)
    words = ["<UNK>", "cat", "<UNK>", "on", "the", "<UNK>"]
    assert [blank.place for blank in found.blanks] == [0, 2, 5]
    for blank in found.blanks:
        expected = brute_force(loaded, words, blank.place)
        check(loaded, blank.forward, expected[0])
        check(loaded, blank.backward, expected[1])
        check(loaded, blank.combined, expected[2])
    assert [blank.place for blank in short.blanks] == [1]


def test_special_words_are_never_proposed() -> None:
    loaded = make_model()
    loaded.model.output.bias.data[:3] = 50.0  # pyright: ignore
    (found,) = predict(loaded, ["the ___"], top=1000)
    for kind in (found.blanks[0].forward, found.blanks[0].backward, found.blanks[0].combined):
        assert {one.word for one in kind} == set(loaded.model.vocabulary.words[3:])
        assert sum(one.probability for one in kind) == pytest.approx(1)


def test_both_sides_together_are_exact_where_they_are_independent_given_the_word() -> None:
    rng = np.random.default_rng(0)
    prior = rng.dirichlet(np.ones(5))
    left, right = rng.dirichlet(np.ones(5)), rng.dirichlet(np.ones(5))  # p(side | word)
    given_left = prior * left / (prior * left).sum()
    given_right = prior * right / (prior * right).sum()
    logs = [torch.from_numpy(one).log() for one in (given_left, given_right, prior)]
    expected = prior * left * right / (prior * left * right).sum()
    np.testing.assert_allclose(combine(*logs).exp().numpy(), expected)


def test_a_blank_may_be_marked_in_another_way() -> None:
    loaded = make_model()
    for text in ("the [MASK] sat", ["the", "[MASK]", "sat"]):
        found = find_blanks(loaded, text, "[MASK]")
        assert found.words == ("the", "<UNK>", "sat")
        assert found.blanks == (1,)
    assert find_blanks(loaded, "(___)").words == ("(", "<UNK>", ")")


def test_what_cannot_be_answered_is_refused() -> None:
    loaded = make_model()
    with pytest.raises(UserError, match="a text with a blank"):
        predict(loaded, ["the cat"])
    with pytest.raises(UserError, match="a text with a blank"):
        predict(loaded, [["the", "cat"]])
    with pytest.raises(UserError, match="top"):
        predict(loaded, ["the ___"], top=0)
    with pytest.raises(UserError, match="blank: expected a mark"):
        predict(loaded, ["the ___"], blank="")
