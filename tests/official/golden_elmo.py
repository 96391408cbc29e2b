"""Official ELMo once more, in NumPy and from its specification alone, with its own HDF5 writer.

Everything here speaks of datasets by their official names; nothing of the package is used.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
State = dict[tuple[int, int], tuple[Array, Array]]
"""Output and cells by direction and layer."""
SPECIAL = ["<S>", "</S>", "<UNK>"]


@dataclass
class Golden:
    """Options and datasets, as in the two official files."""

    options: dict[str, Any]
    weights: dict[str, Array]
    vocabulary: list[str] = field(default_factory=list)

    def write(self, folder: Path) -> Path:
        folder.mkdir(parents=True)
        (folder / "options.json").write_text(json.dumps(self.options))
        with h5py.File(folder / "weights.hdf5", "w") as file:
            for name, values in self.weights.items():
                file.create_dataset(name, values.shape, "float32", values)
        if self.vocabulary:
            (folder / "vocab.txt").write_text("".join(f"{word}\n" for word in self.vocabulary))
        return folder

    def token(self, word: str) -> Array:
        if "char_cnn" not in self.options:
            known = word if word in self.vocabulary else "<UNK>"
            return self.weights["embedding"][self.vocabulary.index(known)].astype(np.float64)
        return self._project(self._highways(self._convolve(self._characters(word))))

    def read(self, sentence: Sequence[str], state: State | None = None) -> tuple[Array, State]:
        """All layers without the boundaries, (1 + layers, words, 2 * width), and the new state."""
        tokens = np.array([self.token(word) for word in ["<S>", *sentence, "</S>"]])
        state = {} if state is None else dict(state)
        ahead = self._stack(0, tokens, state)
        behind = [layer[::-1] for layer in self._stack(1, tokens[::-1], state)]
        both = [np.concatenate(pair, axis=1) for pair in zip(ahead, behind, strict=True)]
        return np.stack([np.concatenate([tokens, tokens], axis=1), *both])[:, 1:-1], state

    def _characters(self, word: str) -> Array:
        inside = {"<S>": [256], "</S>": [257]}.get(word, list(word.encode()[:48]))
        row = [258, *inside, 259]
        padded = row + [260] * (50 - len(row))
        return self.weights["char_embed"].astype(np.float64)[padded]

    def _convolve(self, characters: Array) -> Array:
        features: list[Array] = []
        squash = {"relu": lambda x: np.maximum(x, 0), "tanh": np.tanh}
        for place, (width, _) in enumerate(self.options["char_cnn"]["filters"]):
            kernel = self.weights[f"CNN/W_cnn_{place}"][0].astype(np.float64)
            windows = [characters[k : k + width] for k in range(50 - width + 1)]
            values = [np.einsum("wd,wdn->n", window, kernel) for window in windows]
            best = np.max(values, axis=0) + self.weights[f"CNN/b_cnn_{place}"]
            features.append(squash[self.options["char_cnn"]["activation"]](best))
        return np.concatenate(features)

    def _highways(self, x: Array) -> Array:
        for place in range(self.options["char_cnn"]["n_highway"]):
            part = {
                name: self.weights[f"CNN_high_{place}/{name}"].astype(np.float64)
                for name in ("W_carry", "b_carry", "W_transform", "b_transform")
            }
            gate = sigmoid(x @ part["W_carry"] + part["b_carry"])
            new = np.maximum(x @ part["W_transform"] + part["b_transform"], 0)
            x = gate * new + (1 - gate) * x
        return x

    def _project(self, x: Array) -> Array:
        if "CNN_proj/W_proj" not in self.weights:
            return x
        weight = self.weights["CNN_proj/W_proj"].astype(np.float64)
        return x @ weight + self.weights["CNN_proj/b_proj"]

    def _stack(self, direction: int, inputs: Array, state: State) -> list[Array]:
        layers: list[Array] = []
        for layer in range(self.options["lstm"]["n_layers"]):
            outputs = self._lstm(direction, layer, inputs, state)
            if layer > 0 and self.options["lstm"].get("use_skip_connections"):
                outputs = outputs + inputs
            layers.append(outputs)
            inputs = outputs
        return layers

    def _lstm(self, direction: int, layer: int, inputs: Array, state: State) -> Array:
        lstm = self.options["lstm"]
        where = f"RNN_{direction}/RNN/MultiRNNCell/Cell{layer}/LSTMCell"
        weight = self.weights[f"{where}/W_0"].astype(np.float64)
        bias = self.weights[f"{where}/B"].astype(np.float64)
        projection = self.weights.get(f"{where}/W_P_0")
        zeros = (np.zeros(lstm["projection_dim"]), np.zeros(lstm["dim"]))
        h, c = state.get((direction, layer), zeros)
        outputs: list[Array] = []
        for x in inputs:
            i, j, f, o = np.split(np.concatenate([x, h]) @ weight + bias, 4)
            c = sigmoid(f + 1) * c + sigmoid(i) * np.tanh(j)
            c = clip(c, lstm.get("cell_clip"))
            h = sigmoid(o) * np.tanh(c)
            if projection is not None:
                h = clip(h @ projection.astype(np.float64), lstm.get("proj_clip"))
            outputs.append(h)
        state[direction, layer] = (h, c)
        return np.array(outputs)


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def clip(x: Array, bound: float | None) -> Array:
    return x if bound is None else np.clip(x, -bound, bound)


def golden(
    *,
    layers: int = 2,
    cells: int = 6,
    width: int = 4,
    skip: bool = True,
    cell_clip: float | None = 0.6,
    proj_clip: float | None = 0.9,
    activation: str = "relu",
    highways: int = 1,
    characters: int = 262,
    filters: Sequence[tuple[int, int]] = ((1, 2), (3, 5)),
    words: Sequence[str] | None = None,
    square_projection: bool = False,
    seed: int = 0,
) -> Golden:
    """Random weights, so large that the clips of this size are active."""
    random = np.random.default_rng(seed)

    def draw(*shape: int) -> Array:
        return random.normal(scale=1.2 / np.sqrt(shape[0]), size=shape).astype(np.float32)

    weights: dict[str, Array] = {}
    options: dict[str, Any] = {
        "lstm": {
            "dim": cells,
            "projection_dim": width,
            "n_layers": layers,
            "use_skip_connections": skip,
        }
    }
    bounds = {"cell_clip": cell_clip, "proj_clip": proj_clip}
    options["lstm"] |= {name: bound for name, bound in bounds.items() if bound is not None}
    if words is None:
        features = sum(number for _, number in filters)
        options["char_cnn"] = {
            "embedding": {"dim": 3},
            "filters": [list(pair) for pair in filters],
            "n_highway": highways,
            "n_characters": characters,
            "max_characters_per_token": 50,
            "activation": activation,
        }
        weights["char_embed"] = draw(261, 3) * 12
        for place, (reach, number) in enumerate(filters):
            weights[f"CNN/W_cnn_{place}"] = draw(1, reach, 3, number) * 0.4
            weights[f"CNN/b_cnn_{place}"] = draw(number)
        for place in range(highways):
            for name in ("carry", "transform"):
                weights[f"CNN_high_{place}/W_{name}"] = draw(features, features)
                weights[f"CNN_high_{place}/b_{name}"] = draw(features)
        if features != width:
            weights["CNN_proj/W_proj"] = draw(features, width)
            weights["CNN_proj/b_proj"] = draw(width)
    else:
        weights["embedding"] = draw(len(words), width) * 2
    for direction in (0, 1):
        for layer in range(layers):
            where = f"RNN_{direction}/RNN/MultiRNNCell/Cell{layer}/LSTMCell"
            weights[f"{where}/W_0"] = draw(2 * width, 4 * cells) * 2
            weights[f"{where}/B"] = draw(4 * cells) * 2
            if width < cells or square_projection:
                weights[f"{where}/W_P_0"] = draw(cells, width) * 2
    return Golden(options, weights, [] if words is None else list(words))
