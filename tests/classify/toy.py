"""A task small enough to be learned in a second: the words of a text tell its label."""

from __future__ import annotations

import random

import torch

from elmo.bilm.config import BiLMConfig, SoftmaxConfig
from elmo.bilm.model import BiLM
from elmo.classify.config import ClassifierConfig, LearningConfig, NetworkConfig
from elmo.classify.data import LabelledTexts
from elmo.language_model import LanguageModel
from elmo.text.tokenizer import TokenizerConfig
from elmo.text.vocabulary import SPECIAL_WORDS, Vocabulary

TOPICS = {"animals": ("cat", "dog", "cow"), "weather": ("rain", "sun", "wind")}
FILLERS = ("the", "a", "on", "was")
WORDS = (*FILLERS, *TOPICS["animals"], *TOPICS["weather"])


def toy_texts(number: int = 60, seed: int = 0) -> LabelledTexts:
    """Texts of one to eight words, one of them of a topic."""
    draw = random.Random(seed)
    texts: list[str] = []
    labels: list[str] = []
    for _ in range(number):
        label = draw.choice(sorted(TOPICS))
        words = [draw.choice(FILLERS) for _ in range(draw.randint(0, 7))]
        words.insert(draw.randint(0, len(words)), draw.choice(TOPICS[label]))
        texts.append(" ".join(words))
        labels.append(label)
    return LabelledTexts(texts, labels, [f"row {row}" for row in range(number)])


def toy_model(seed: int = 0) -> LanguageModel:
    """A biLM of random weights, in single precision as in use."""
    vocabulary = Vocabulary((*SPECIAL_WORDS, *WORDS), (9, 9, 9, *range(30, 30 - len(WORDS), -1)))
    config = BiLMConfig(word_dim=6, hidden=6, softmax=SoftmaxConfig(loss="full"))
    torch.manual_seed(seed)
    model = BiLM(config, vocabulary)
    for parameter in model.parameters():
        parameter.data.add_(torch.randn_like(parameter), alpha=0.3)
    return LanguageModel(model, TokenizerConfig())


def toy_config(
    network: NetworkConfig | None = None, learning: LearningConfig | None = None
) -> ClassifierConfig:
    """Settings that learn the toy task."""
    return ClassifierConfig(
        parts="network",
        network=network or NetworkConfig(task_dim=4, task_min_count=1, hidden=8, dropout=0.1),
        learning=learning
        or LearningConfig(epochs=6, batch_texts=8, learning_rate=0.02, development_share=0.2),
    )
