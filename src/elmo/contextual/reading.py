"""Texts of any length are read in windows, and each layer's outputs put at their words.

The forward direction takes its windows from a text's begin, the backward one from its end, so both
carry their state from window to window and give exactly what reading at once would give.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import starmap

import torch
from torch import Tensor

from elmo.bilm.lstm import LSTMState
from elmo.bilm.model import BiLM, BiLMState, LayerActivations, Randomness
from elmo.bilm.side_by_side import run_side_by_side
from elmo.bilm.stack import LSTMStack, StackOutput
from elmo.bilm.tokens import look_up
from elmo.text.batches import Batch, Reading


@dataclass(frozen=True)
class _DirectionOutput:
    """What a direction made of a window, in its own reading order."""

    layers: Tensor  # (1 + layers, time, batch, width), the words themselves first
    state: tuple[LSTMState, ...]


def read_layers(
    model: BiLM,
    windows: Iterable[Batch],
    words: Sequence[int],
    window: int,
    state: BiLMState | None = None,
    random: Randomness | None = None,
) -> LayerActivations:
    """The layers of texts of so many words, read side by side in windows of so many steps.

    Gradients flow, within a window, if they are on; `random` draws the dropout of the biLM.
    """
    lengths = torch.tensor(words, device=model.device)
    layers = _room(model, len(words), max(words))
    width = model.config.width
    for number, batch in enumerate(windows):
        ahead, behind = _read_both(model, batch.to(model.device), state, random)
        time = torch.arange(ahead.layers.shape[1], device=model.device)
        steps = (number * window + time)[:, None].expand(-1, len(words))
        # Step 0 is a boundary. A forward stack then meets the first word, a backward one the last.
        _put(layers[..., :width], ahead.layers, steps - 1, lengths)
        _put(layers[..., width:], behind.layers, lengths - steps, lengths)
        state = BiLMState(ahead.state, behind.state)
    assert state is not None
    return LayerActivations(layers, lengths, state)


def _room(model: BiLM, batch: int, words: int) -> Tensor:
    """Zeros to put the layers into, in single precision or better."""
    kind = torch.promote_types(model.compute_dtype, torch.float32)
    shape = (1 + model.config.layers, batch, words, 2 * model.config.width)
    return torch.zeros(shape, dtype=kind, device=model.device)


def _put(into: Tensor, layers: Tensor, places: Tensor, lengths: Tensor) -> None:
    """Put each step's outputs at the place of its word, if it has one; (time, batch) places."""
    time, column = ((places >= 0) & (places < lengths)).nonzero(as_tuple=True)
    into[:, column, places[time, column]] = layers[:, time, column].to(into.dtype)


def _read_both(
    model: BiLM, batch: Batch, state: BiLMState | None, random: Randomness | None
) -> tuple[_DirectionOutput, _DirectionOutput]:
    vectors = model.token_layer(batch.words).to(model.compute_dtype)
    works = zip(
        model.directions, batch.readings, state or (None, None), random or (None, None),
        strict=True,
    )  # fmt: skip

    def read(
        stack: LSTMStack,
        reading: Reading,
        states: tuple[LSTMState, ...] | None,
        generator: torch.Generator | None,
    ) -> _DirectionOutput:
        inputs = look_up(vectors, reading.inputs)
        output: StackOutput = stack(inputs, states, reading.lengths, generator)
        return _DirectionOutput(torch.stack([inputs, *output.layers]), output.states)

    if torch.is_grad_enabled():
        ahead, behind = starmap(read, works)
    else:
        forward, backward = works
        ahead, behind = run_side_by_side(lambda: read(*forward), lambda: read(*backward))
    return ahead, behind
