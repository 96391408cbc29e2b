"""The one table of names: which dataset of the official file is which of our parameters.

Each row tells the dataset's shape and how its numbers are laid out, there and here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from elmo.bilm.config import BiLMConfig, CharacterConfig
from elmo.text.characters import CHARACTER_IDS

Array = NDArray[np.float32]


@dataclass(frozen=True)
class Layout:
    """How the numbers of one dataset become those of our parameters, and the way back."""

    to_ours: Callable[[Array], tuple[Array, ...]]
    to_official: Callable[[Sequence[Array]], Array]


@dataclass(frozen=True)
class Row:
    """One dataset, and the parameters that hold its numbers."""

    dataset: str
    shape: tuple[int, ...]
    parameters: tuple[str, ...]
    layout: Layout


def names_of(config: BiLMConfig, vocabulary: int, *, token_projection: bool = True) -> list[Row]:
    """All rows of a model, in the order of our parameters.

    `token_projection` is false in files whose character features are as wide as the layers.
    """
    rows = (
        [Row("embedding", (vocabulary, config.width), ("token_layer.words.weight",), SAME)]
        if not config.spelled
        else list(_character_rows(config.characters))
    )
    if config.spelled and token_projection:
        size = (config.characters.features, config.width)
        rows += _linear_rows("CNN_proj/W_proj", "CNN_proj/b_proj", size, "token_layer.projection")
    for number, direction in enumerate(("forward_stack", "backward_stack")):
        for layer in range(config.layers):
            rows += _lstm_rows(config, number, direction, layer)
    return rows


def _character_rows(config: CharacterConfig) -> Iterator[Row]:
    ours = "token_layer.characters"
    shape = (CHARACTER_IDS - 1, config.char_dim)
    yield Row("char_embed", shape, (f"{ours}.characters.weight",), NO_PADDING_ROW)
    for place, (width, number) in enumerate(config.filters):
        shape = (1, width, config.char_dim, number)
        convolution = f"{ours}.convolutions.{place}"
        yield Row(f"CNN/W_cnn_{place}", shape, (f"{convolution}.weight",), CONVOLUTION)
        yield Row(f"CNN/b_cnn_{place}", (number,), (f"{convolution}.bias",), SAME)
    size = (config.features, config.features)
    for place in range(config.highways):
        there, here = f"CNN_high_{place}", f"{ours}.highways.{place}"
        # Despite its name, "carry" is the gate of what is transformed.
        yield from _linear_rows(f"{there}/W_carry", f"{there}/b_carry", size, f"{here}.gate")
        yield from _linear_rows(
            f"{there}/W_transform", f"{there}/b_transform", size, f"{here}.transform"
        )


def _linear_rows(weight: str, bias: str, size: tuple[int, int], ours: str) -> list[Row]:
    return [
        Row(weight, size, (f"{ours}.weight",), TRANSPOSED),
        Row(bias, size[1:], (f"{ours}.bias",), SAME),
    ]


def _lstm_rows(config: BiLMConfig, number: int, direction: str, layer: int) -> Iterator[Row]:
    there = f"RNN_{number}/RNN/MultiRNNCell/Cell{layer}/LSTMCell"
    here = f"{direction}.layers.{layer}"
    gates = 4 * config.hidden
    weights = (f"{here}.input_weight", f"{here}.recurrent_weight")
    yield Row(f"{there}/W_0", (2 * config.width, gates), weights, STACKED_GATES)
    yield Row(f"{there}/B", (gates,), (f"{here}.bias",), GATES)
    if config.projection is not None:
        shape = (config.hidden, config.projection)
        yield Row(f"{there}/W_P_0", shape, (f"{here}.projection_weight",), SAME)


def _gates_to_ours(values: Array) -> Array:
    """Input, candidate, forget, output → input, forget, output, candidate; last axis."""
    i, j, f, o = np.split(values, 4, axis=-1)
    return np.concatenate([i, f, o, j], axis=-1)


def _gates_to_official(values: Array) -> Array:
    i, f, o, j = np.split(values, 4, axis=-1)
    return np.concatenate([i, j, f, o], axis=-1)


def _split_and_ordered(values: Array) -> tuple[Array, ...]:
    """The rows of the inputs come first, then as many of the last output."""
    inputs, recurrent = np.split(_gates_to_ours(values), 2, axis=0)
    return inputs, recurrent


SAME = Layout(lambda values: (values,), lambda ours: ours[0])
TRANSPOSED = Layout(lambda values: (values.T,), lambda ours: ours[0].T)
CONVOLUTION = Layout(  # (1, width, characters, filters) and (filters, characters, width)
    lambda values: (values[0].transpose(2, 1, 0),),
    lambda ours: ours[0].transpose(2, 1, 0)[None],
)
NO_PADDING_ROW = Layout(
    lambda values: (np.concatenate([np.zeros_like(values[:1]), values]),),
    lambda ours: ours[0][1:],
)
GATES = Layout(lambda values: (_gates_to_ours(values),), lambda ours: _gates_to_official(ours[0]))
STACKED_GATES = Layout(
    _split_and_ordered, lambda ours: _gates_to_official(np.concatenate(ours, axis=0))
)
