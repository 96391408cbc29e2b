"""Models small enough for brute force, in double precision so that equal means equal."""

from __future__ import annotations

import torch

from elmo.bilm.config import BiLMConfig, CharacterConfig, SoftmaxConfig
from elmo.bilm.model import BiLM
from elmo.language_model import LanguageModel
from elmo.text.tokenizer import TokenizerConfig
from elmo.text.vocabulary import SPECIAL_WORDS, Vocabulary

WORDS = ("the", "cat", "sat", "on", "a", "mat", "dog", "naïve", "雨")
VOCABULARY = Vocabulary((*SPECIAL_WORDS, *WORDS), (9, 9, 4, *range(30, 12, -2)))


def make_model(kind: str = "words", loss: str = "full", seed: int = 0) -> LanguageModel:
    """Build a model of an input and a softmax, random but always the same."""
    config = BiLMConfig(
        input=kind,  # pyright: ignore
        word_dim=5,
        characters=CharacterConfig(char_dim=3, filters=((1, 2), (3, 3))),
        hidden=6,
        softmax=SoftmaxConfig(loss=loss, tied=False, cutoffs=(6,)),  # pyright: ignore
    )
    torch.manual_seed(seed)
    model = BiLM(config, VOCABULARY).double()
    for parameter in model.parameters():
        # A fresh model finds all words about equally likely; this one has opinions.
        parameter.data.add_(torch.randn_like(parameter), alpha=0.5)
    model.compute_dtype = torch.float64
    return LanguageModel(model, TokenizerConfig())
