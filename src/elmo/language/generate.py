"""Text written by one direction of the model, word by word, its state carried along."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
import torch
from torch import Tensor

from elmo.bilm.model import BiLM, StackState
from elmo.checkpoint import LoadedModel, Text
from elmo.config import check
from elmo.language.generation_config import GenerationConfig
from elmo.text.batches import WordTable
from elmo.text.vocabulary import BEGIN, END, UNKNOWN


@dataclass(frozen=True)
class Generation:
    """A prompt, and what the model wrote behind or before it."""

    prompt: tuple[str, ...]
    written: tuple[str, ...]
    """In the order in which one reads, whatever the direction."""
    backward: bool
    ended: bool
    """Whether the text came to its end (or, backwards, its begin); if not, the length ran out."""

    @property
    def words(self) -> tuple[str, ...]:
        """The whole text."""
        return self.written + self.prompt if self.backward else self.prompt + self.written


def generate(
    loaded: LoadedModel, prompt: Text = (), config: GenerationConfig | None = None
) -> Generation:
    """Write on from a prompt, which may be empty, up to a boundary or as long as allowed."""
    config = config or GenerationConfig()
    check(config)
    words = loaded.words(prompt)
    backward = config.direction == "backward"
    read = ["</S>", *reversed(words)] if backward else ["<S>", *words]
    stop = "<S>" if backward else "</S>"
    written: list[str] = []
    for word in islice(_write(loaded.model, read, config), config.length):
        if word == stop:
            break
        written.append(word)
    ended = len(written) < config.length
    in_order = reversed(written) if backward else written
    return Generation(tuple(words), tuple(in_order), backward, ended)


@torch.no_grad()
def _write(model: BiLM, read: Sequence[str], config: GenerationConfig) -> Iterator[str]:
    """Words without end: each is chosen, and read in its turn."""
    random = torch.Generator().manual_seed(config.seed)
    never = [UNKNOWN, END if config.direction == "backward" else BEGIN]
    states: StackState | None = None
    while True:
        top, states = _read(model, read, states, config)
        logits = model.output.log_probabilities(top)[0].double().cpu()
        logits[never] = -torch.inf
        word = model.vocabulary.words[choose(logits, config, random)]
        yield word
        read = [word]


def choose(logits: Tensor, config: GenerationConfig, random: torch.Generator) -> int:
    """Draw a word, or take the best one where the temperature is zero, from (words,) logits."""
    if config.temperature == 0:
        return int(logits.argmax())
    return int(torch.multinomial(chances(logits, config), 1, generator=random))


def chances(logits: Tensor, config: GenerationConfig) -> Tensor:
    """The distribution to draw from: made sharper or flatter, then cut off."""
    sharpened = (logits - logits.max()) / config.temperature
    ordered, places = sharpened.softmax(dim=0).sort(descending=True)
    if config.top_k is not None:
        ordered[config.top_k :] = 0
        ordered /= ordered.sum()
    # A word stays if those above it do not have the share yet: so the best one always stays.
    ordered[ordered.cumsum(0) - ordered >= config.top_p] = 0
    return torch.zeros_like(ordered).scatter(0, places, ordered / ordered.sum())


def _read(
    model: BiLM, words: Sequence[str], states: StackState | None, config: GenerationConfig
) -> tuple[Tensor, StackState]:
    """Let one direction read on; its last state, (1, width), and where it stands."""
    stack = model.backward_stack if config.direction == "backward" else model.forward_stack
    table = WordTable.of(words, model.vocabulary, spelled=model.config.spelled)
    vectors = model.token_layer(table.select(np.arange(len(words))).to(model.device))
    inputs = vectors.to(model.compute_dtype)[:, None]  # (time, 1, width)
    read = stack(inputs, states, torch.tensor([len(words)], device=model.device))
    return read.layers[-1][-1], read.states
