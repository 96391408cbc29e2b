"""The model once more, in NumPy, a word and a step at a time: what the tests compare with.

Written from the equations, not from the code: no batches, no padding, no gradients.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from elmo.bilm.lstm import LSTMLayer, LSTMStack
from elmo.bilm.model import BiLM
from elmo.bilm.tokens import CharacterCNN, Highway, TokenLayer

Array = NDArray[np.float64]


def array(tensor: Tensor) -> Array:
    return tensor.detach().double().numpy()


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def lstm(layer: LSTMLayer, inputs: Array, h: Array, c: Array) -> tuple[Array, Array, Array]:
    """Read (time, inputs) from a start state; give all outputs, the last one and the cells."""
    n = layer.hidden
    outputs: list[Array] = []
    for x in inputs:
        z = x @ array(layer.input_weight) + h @ array(layer.recurrent_weight) + array(layer.bias)
        i, f, o = sigmoid(z[:n]), sigmoid(z[n : 2 * n] + 1.0), sigmoid(z[2 * n : 3 * n])
        c = f * c + i * np.tanh(z[3 * n :])
        if layer.cell_clip is not None:
            c = np.clip(c, -layer.cell_clip, layer.cell_clip)
        h = o * np.tanh(c)
        if layer.projection_weight is not None:
            h = h @ array(layer.projection_weight)
            if layer.projection_clip is not None:
                h = np.clip(h, -layer.projection_clip, layer.projection_clip)
        outputs.append(h)
    return np.array(outputs).reshape(len(inputs), layer.width), h, c


def stack(direction: LSTMStack, inputs: Array) -> list[Array]:
    """Each layer's outputs for one text, from a state of zeros."""
    layers: list[Array] = []
    for number, layer in enumerate(direction.layers):
        assert isinstance(layer, LSTMLayer)
        outputs, _, _ = lstm(layer, inputs, np.zeros(layer.width), np.zeros(layer.hidden))
        if number >= direction.first_skip:
            outputs = outputs + inputs
        layers.append(outputs)
        inputs = outputs
    return layers


def official_row(word: str) -> list[int]:
    """A word's row of characters, with the official ids and 1 added to each."""
    content = {"<S>": [256], "</S>": [257]}.get(word, list(word.encode()[:48]))
    row = [258, *content, 259]
    return [number + 1 for number in row + [260] * (50 - len(row))]


def character_features(cnn: CharacterCNN, row: Sequence[int], activation: Any) -> Array:
    characters = [array(cnn.characters.weight)[number] for number in row]
    features: list[float] = []
    for convolution in cnn.convolutions:
        weight, bias = array(convolution.weight), array(convolution.bias)  # pyright: ignore
        number, _, width = weight.shape
        for kernel in range(number):
            best = -np.inf
            for first in range(len(row) - width + 1):
                value = bias[kernel]
                for offset in range(width):
                    value += weight[kernel, :, offset] @ characters[first + offset]
                best = max(best, value)
            features.append(activation(best))
    found = np.array(features)
    for highway in cnn.highways:
        assert isinstance(highway, Highway)
        found = highway_layer(highway, found)
    return found


def highway_layer(highway: Highway, x: Array) -> Array:
    gate = sigmoid(array(highway.gate.weight) @ x + array(highway.gate.bias))
    new = np.maximum(0, array(highway.transform.weight) @ x + array(highway.transform.bias))
    return gate * new + (1 - gate) * x


def token(layer: TokenLayer, word: str, number: int, activation: Any) -> Array:
    """A word's vector, from its id, its spelling or both."""
    parts: list[Array] = []
    if layer.words is not None:
        parts.append(array(layer.words.weight)[number])
    if layer.characters is not None:
        parts.append(character_features(layer.characters, official_row(word), activation))
    features = np.concatenate(parts)
    if layer.projection is None:
        return features
    return array(layer.projection.weight) @ features + array(layer.projection.bias)


def tokens(model: BiLM, words: Sequence[str]) -> Array:
    activation = {"relu": lambda x: max(0.0, x), "tanh": np.tanh}
    chosen = activation[model.config.characters.activation]
    known = {word: place for place, word in enumerate(model.vocabulary.words)}
    return np.array([token(model.token_layer, word, known.get(word, 2), chosen) for word in words])


def activations(model: BiLM, sentence: Sequence[str]) -> Array:
    """(1 + layers, words, 2 * width) of one sentence, boundaries read and then removed."""
    vectors = tokens(model, ["<S>", *sentence, "</S>"])
    ahead = stack(model.forward_stack, vectors)
    behind = [layer[::-1] for layer in stack(model.backward_stack, vectors[::-1])]
    layers = [np.concatenate([vectors, vectors], axis=1)]
    layers += [np.concatenate(pair, axis=1) for pair in zip(ahead, behind, strict=True)]
    return np.stack(layers)[:, 1:-1]


def log_softmax(logits: Array) -> Array:
    shifted = logits - logits.max()
    return shifted - np.log(np.exp(shifted).sum())


def next_word(model: BiLM, direction: LSTMStack, read: Sequence[str]) -> Array:
    """Log-probability of every word after what was read, with a plain softmax."""
    top = stack(direction, tokens(model, read))[-1][-1]
    return log_softmax(array(model.output.weight) @ top + array(model.output.bias))  # pyright: ignore
