"""A text's prediction is its own: the same alone, in any batch and in any order."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.classify.toy import WORDS, toy_config, toy_model, toy_texts

from elmo.classify.train import train
from elmo.errors import UserError

CLASSIFIER = train(toy_model(), toy_texts(), toy_config()).classifier
TEXT = st.lists(st.sampled_from([*WORDS, "unheard"]), max_size=9)


@given(st.lists(TEXT, min_size=1, max_size=8), st.randoms())
def test_one_by_one_and_in_any_batch(texts: list[list[str]], random: object) -> None:
    together = CLASSIFIER.probabilities(texts)
    alone = np.concatenate([CLASSIFIER.probabilities([text]) for text in texts])
    np.testing.assert_allclose(together, alone, rtol=0, atol=1e-6)
    order = list(range(len(texts)))
    random.shuffle(order)  # pyright: ignore
    shuffled = CLASSIFIER.probabilities([texts[place] for place in order])
    np.testing.assert_allclose(shuffled, together[order], rtol=0, atol=1e-6)
    np.testing.assert_allclose(together.sum(1), 1, rtol=0, atol=1e-5)


def test_predictions_name_labels_and_flag_empty_texts() -> None:
    cat, nothing = CLASSIFIER.predict(["the cat", " "])
    assert cat.label == "animals"
    assert set(cat.probabilities) == {"animals", "weather"}
    assert cat.probabilities["animals"] == max(cat.probabilities.values())
    assert not cat.empty
    assert nothing.empty
    assert sum(nothing.probabilities.values()) == pytest.approx(1, abs=1e-5)


def test_no_texts_give_no_predictions_and_one_string_is_a_mistake() -> None:
    assert CLASSIFIER.predict([]) == []
    with pytest.raises(UserError, match="put it in a list"):
        CLASSIFIER.predict("the cat")
