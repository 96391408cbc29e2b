"""How many words are read at a time where nobody says."""

from __future__ import annotations

import pytest

from elmo.bilm.config import BiLMConfig
from elmo.bilm.model import BiLM
from elmo.contextual.groups import usual_batch_tokens
from elmo.text.vocabulary import Vocabulary

WORDS = Vocabulary(("<S>", "</S>", "<UNK>", "oil"), (1, 1, 1, 1))


@pytest.mark.parametrize(
    ("hidden", "tokens"), [(16, 32768), (128, 32768), (256, 16384), (512, 8192), (1024, 8192)]
)
def test_the_smaller_the_model_the_more(hidden: int, tokens: int) -> None:
    config = BiLMConfig(word_dim=8, hidden=hidden, projection=8)
    assert usual_batch_tokens(BiLM(config, WORDS)) == tokens
