"""What can be learned is learned; what cannot is not, as it would be if a direction could peek."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
import torch

from elmo.bilm.config import BiLMConfig, CharacterConfig, SoftmaxConfig
from elmo.bilm.model import BiLM, Randomness
from elmo.text.batching import (
    Batch,
    Group,
    Targets,
    WordTable,
    pack_texts,
    pack_window,
)
from elmo.text.vocabulary import SPECIAL_WORDS, Shard, Vocabulary

# To go on after "the" or "sat" one must remember more than one word, in both directions.
TEXT = "the cat sat on the mat and the dog sat on the cat and so the mat sat on the dog"
STORY = TEXT.split()
WORDS = 16
ENTROPY = math.log(WORDS)
CPU = torch.device("cpu")


def vocabulary_of(words: list[str]) -> Vocabulary:
    distinct = tuple(dict.fromkeys(words))
    return Vocabulary((*SPECIAL_WORDS, *distinct), (1, 1, 0, *map(words.count, distinct)))


def build(kind: str, vocabulary: Vocabulary, softmax: SoftmaxConfig, dropout: float = 0.0) -> BiLM:
    torch.manual_seed(0)
    config = BiLMConfig(
        input=kind,  # pyright: ignore
        word_dim=16,
        characters=CharacterConfig(char_dim=4, filters=((1, 8), (3, 8))),
        hidden=16,
        layers=2,
        skip=True,
        dropout=dropout,
        softmax=softmax,
    )
    return BiLM(config, vocabulary)


def train(model: BiLM, batches: Iterator[Batch], steps: int, rate: float) -> list[list[float]]:
    """The loss a word of each direction at each step, before the step is taken."""
    optimizer = torch.optim.Adam(model.parameters(), lr=rate)
    losses: list[list[float]] = []
    for step in range(steps):
        optimizer.zero_grad()
        found = model.loss(next(batches), random=Randomness.of(0, step, CPU))
        found.mean.backward()
        optimizer.step()
        losses.append(
            [
                found.forward.item() / found.forward_targets,
                found.backward.item() / found.backward_targets,
            ]
        )
    return losses


@pytest.mark.parametrize(
    ("kind", "softmax"),
    [
        ("words", SoftmaxConfig(loss="full", tied=True)),
        ("words", SoftmaxConfig(loss="sampled", samples=8, tied=True)),
        ("characters", SoftmaxConfig(loss="full", tied=False)),
        ("both", SoftmaxConfig(loss="adaptive", cutoffs=(6,), tied=False)),
    ],
    ids=lambda value: value if isinstance(value, str) else value.loss,
)
def test_a_story_is_learned_by_heart(kind: str, softmax: SoftmaxConfig) -> None:
    model = build(kind, vocabulary_of(STORY), softmax)
    story = pack_texts([STORY], model.vocabulary, spelled=kind != "words")
    train(model, iter(lambda: story, None), steps=100, rate=0.03)
    with torch.no_grad():
        targets = (story.forward, story.backward)
        for asked, states in zip(targets, model.layers(story).at_targets(), strict=True):
            chances = model.output.log_probabilities(states)
            right = chances[torch.arange(len(states)), asked.ids]
            assert -right.mean() < 0.05
            assert torch.equal(chances.argmax(dim=1), asked.ids)


def noise() -> Iterator[Batch]:
    """Words drawn alike and independently, never the same twice, without any boundary."""
    random = np.random.default_rng(0)
    vocabulary = vocabulary_of([f"w{number}" for number in range(WORDS)])
    table = WordTable.of(vocabulary.words, vocabulary, spelled=True)
    while True:
        ids = random.integers(3, 3 + WORDS, 16 * 13).astype(np.uint32)
        ends = np.arange(1, 17) * 13
        batch = pack_window(Shard(ids, ends), Group(0, ends - 13, ends), table, 12, 0)
        assert batch is not None
        yield batch


def leaking(batches: Iterator[Batch]) -> Iterator[Batch]:
    """The same, but each direction has already read the word it is asked for."""
    for batch in batches:
        ids = batch.words.ids
        forward, backward = (
            Targets(targets.tokens, ids[inputs[targets.tokens]])
            for targets, inputs in zip((batch.forward, batch.backward), batch.inputs, strict=True)
        )
        yield replace(batch, forward=forward, backward=backward)


@pytest.mark.parametrize("kind", ["words", "characters", "both"])
def test_noise_stays_at_its_entropy(kind: str) -> None:
    vocabulary = vocabulary_of([f"w{number}" for number in range(WORDS)])
    model = build(kind, vocabulary, SoftmaxConfig(loss="full", tied=False))
    losses = np.array(train(model, noise(), steps=160, rate=0.01))
    for direction in (0, 1):
        late = losses[-80:, direction].mean()
        # Above for want of data; below only by a leak.
        assert ENTROPY - 0.005 < late < ENTROPY + 0.03


def test_a_leak_would_be_noticed() -> None:
    vocabulary = vocabulary_of([f"w{number}" for number in range(WORDS)])
    model = build("words", vocabulary, SoftmaxConfig(loss="full", tied=False))
    losses = np.array(train(model, leaking(noise()), steps=160, rate=0.01))
    assert losses[-80:].mean(axis=0).max() < ENTROPY / 4
