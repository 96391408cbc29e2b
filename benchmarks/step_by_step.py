"""Official ELMo the plain way: every word of a batch through the CNN, then one step at a time.

It reads options.json and the HDF5 file itself and uses nothing of the package: what is measured
against it is also compared with it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

ROWS_AT_ONCE = 512
"""Of words in the CNN: all of a batch at once would take gigabytes."""


class StepByStep:
    """A model whose weights are kept in the number format it computes in."""

    def __init__(self, folder: Path, kind: torch.dtype = torch.float32) -> None:
        self.options: dict[str, Any] = json.loads((folder / "options.json").read_text())
        self.kind = kind
        self.weights: dict[str, Tensor] = {}
        with h5py.File(next(folder.glob("*.hdf5"))) as file:
            file.visititems(self._add)

    def _add(self, name: str, found: Any) -> None:
        if isinstance(found, h5py.Dataset):
            self.weights[name] = torch.from_numpy(np.asarray(found[()])).to(self.kind)

    @torch.no_grad()
    def encode(self, sentences: Sequence[Sequence[str]]) -> list[np.ndarray[Any, Any]]:
        """All layers of each sentence, (1 + layers, words, 2 * width)."""
        texts = [["<S>", *words, "</S>"] for words in sentences]
        longest = max(map(len, texts))
        rows = [spelled(word) for text in texts for word in text + ["</S>"] * (longest - len(text))]
        tokens = self._tokens(torch.tensor(rows)).view(len(texts), longest, -1)
        lengths = torch.tensor([len(text) for text in texts])
        ahead = self._stack(0, tokens)
        places = (lengths[:, None] - 1 - torch.arange(longest)).clamp(min=0)
        behind = [_gathered(one, places) for one in self._stack(1, _gathered(tokens, places))]
        both = [torch.cat(pair, dim=2) for pair in zip(ahead, behind, strict=True)]
        layers = torch.stack([torch.cat([tokens, tokens], dim=2), *both]).float().numpy()
        return [layers[:, row, 1 : len(text) - 1] for row, text in enumerate(texts)]

    def _tokens(self, rows: Tensor) -> Tensor:
        return torch.cat([self._cnn(part) for part in rows.split(ROWS_AT_ONCE)])

    def _cnn(self, rows: Tensor) -> Tensor:
        characters = self.weights["char_embed"][rows].transpose(1, 2)
        features: list[Tensor] = []
        for place in range(len(self.options["char_cnn"]["filters"])):
            weight = self.weights[f"CNN/W_cnn_{place}"][0].permute(2, 1, 0)
            bias = self.weights[f"CNN/b_cnn_{place}"]
            features.append(functional.conv1d(characters, weight, bias).amax(dim=2).relu())
        x = torch.cat(features, dim=1)
        for place in range(self.options["char_cnn"]["n_highway"]):
            part = f"CNN_high_{place}"
            gate = torch.sigmoid(self._linear(x, f"{part}/W_carry", f"{part}/b_carry"))
            new = self._linear(x, f"{part}/W_transform", f"{part}/b_transform").relu()
            x = gate * new + (1 - gate) * x
        return self._linear(x, "CNN_proj/W_proj", "CNN_proj/b_proj")

    def _linear(self, x: Tensor, weight: str, bias: str) -> Tensor:
        return x @ self.weights[weight] + self.weights[bias]

    def _stack(self, direction: int, inputs: Tensor) -> list[Tensor]:
        layers: list[Tensor] = []
        for layer in range(self.options["lstm"]["n_layers"]):
            outputs = self._lstm(f"RNN_{direction}/RNN/MultiRNNCell/Cell{layer}/LSTMCell", inputs)
            if layer > 0 and self.options["lstm"].get("use_skip_connections"):
                outputs = outputs + inputs
            layers.append(outputs)
            inputs = outputs
        return layers

    def _lstm(self, where: str, inputs: Tensor) -> Tensor:
        lstm = self.options["lstm"]
        weight, bias = self.weights[f"{where}/W_0"], self.weights[f"{where}/B"]
        projection = self.weights[f"{where}/W_P_0"]
        batch, steps, width = inputs.shape
        h, c = inputs.new_zeros(batch, width), inputs.new_zeros(batch, lstm["dim"])
        outputs: list[Tensor] = []
        for step in range(steps):
            gates = torch.cat([inputs[:, step], h], dim=1) @ weight + bias
            i, j, f, o = gates.chunk(4, dim=1)
            c = torch.sigmoid(f + 1) * c + torch.sigmoid(i) * torch.tanh(j)
            c = c.clamp(-lstm["cell_clip"], lstm["cell_clip"])
            h = (torch.sigmoid(o) * torch.tanh(c)) @ projection
            h = h.clamp(-lstm["proj_clip"], lstm["proj_clip"])
            outputs.append(h)
        return torch.stack(outputs, dim=1)


def spelled(word: str) -> list[int]:
    """A word as the 50 characters of the specification, without the shift by one."""
    inside = {"<S>": [256], "</S>": [257]}.get(word, list(word.encode()[:48]))
    row = [258, *inside, 259]
    return row + [260] * (50 - len(row))


def _gathered(values: Tensor, places: Tensor) -> Tensor:
    """Of each text, (batch, time, size), the values at these places, (batch, time)."""
    return values.gather(1, places[:, :, None].expand(-1, -1, values.shape[2]))
