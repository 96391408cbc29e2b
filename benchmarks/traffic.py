"""Bytes a training step hands over to be added up, as functions of model size and vocabulary.

    python benchmarks/traffic.py

Arithmetic only. Words are taken to be as frequent as Zipf's law says; a step touches the rows of
the words it reads, of those it must predict, and of its sample, which all processes share.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from elmo.bilm.config import BiLMConfig
from elmo.training.config import DEFAULT, PAPER, PretrainConfig
from elmo.training.estimate import count_parameters

BYTES = 4
CASES = (
    ("default", DEFAULT, 30_000),
    ("default", DEFAULT, 100_000),
    ("paper", PAPER, 100_000),
    ("paper", PAPER, 793_471),
)


@dataclass(frozen=True)
class Bytes:
    """What each process hands over in a step."""

    dense: float
    """All gradients whole."""
    sent: float
    """Of the words' matrices, only the rows that have a gradient."""


def main() -> None:
    """Print a table for two and for eight processes with a batch each."""
    print("| model | words | processes | all gradients, MB | sent, MB | share |")
    print("|---|---|---|---|---|---|")
    for name, config, words in CASES:
        for processes in (2, 8):
            found = bytes_a_step(config, words, processes)
            print(
                f"| {name} | {words:,} | {processes} | {found.dense / 1e6:,.1f} | "
                f"{found.sent / 1e6:,.1f} | {found.sent / found.dense:.1%} |"
            )


def bytes_a_step(config: PretrainConfig, words: int, processes: int) -> Bytes:
    """For a global batch that grows with the number of processes."""
    model = config.model
    parameters = count_parameters(model, words)
    by_word = word_numbers(model) * words
    tokens = config.batching.batch_tokens * processes
    rows = touched_rows(model, words, tokens)
    flags = words * matrices(model)
    dense = BYTES * parameters
    sent = BYTES * (parameters - by_word) + BYTES * rows * word_numbers(model) + flags
    return Bytes(dense, min(sent, dense + flags))


def touched_rows(model: BiLMConfig, words: int, tokens: int) -> float:
    """Expected distinct words of a batch and of the samples of both directions."""
    zipf = 1 / np.arange(1, words + 1)
    if model.softmax.sampler == "unigram":
        chances = zipf**0.75
    else:
        ranks = np.arange(words)
        chances = np.log((ranks + 2) / (ranks + 1))
    missed = (1 - zipf / zipf.sum()) ** tokens
    missed *= (1 - chances / chances.sum()) ** (2 * model.softmax.samples)
    return float((1 - missed).sum())


def word_numbers(model: BiLMConfig) -> int:
    """Numbers that belong to one word: its vector, its row of the softmax, its bias."""
    vector = 0 if model.input == "characters" else model.word_dim
    return vector + (0 if model.softmax.tied else model.width) + 1


def matrices(model: BiLMConfig) -> int:
    """How many parameters have a row a word."""
    return (model.input != "characters") + (not model.softmax.tied) + 1


if __name__ == "__main__":
    main()
