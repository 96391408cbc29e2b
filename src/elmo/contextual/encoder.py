"""One run over texts: words in, vectors out, the carried state kept in between."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from elmo.bilm.model import BiLM, BiLMState, LayerActivations
from elmo.config import check
from elmo.contextual.encode_config import EncodeConfig
from elmo.contextual.groups import GroupLayers, read_alike, read_in_order, usual_batch_tokens
from elmo.contextual.mix import LayerMix
from elmo.contextual.mix_config import MixConfig
from elmo.contextual.pooling import pool
from elmo.errors import UserError

Vectors = NDArray[np.float32]
OnTexts = Callable[[int, int], None]
"""Told how many more texts, and words of them, are done."""


class Encoder:
    """Turns tokenised texts into vectors; with start=carry, each call goes on from the last."""

    def __init__(
        self, model: BiLM, config: EncodeConfig, mix: LayerMix, start: BiLMState | None = None
    ) -> None:
        check(config)
        self.model = model
        self.config = config
        self.state = start
        self.batch_tokens = config.batch_tokens or usual_batch_tokens(model)
        self._wanted = _wanted(config, model)
        self._mix = _mix_for(config, model, mix)

    @property
    def dim(self) -> int:
        """The size of a vector."""
        size = 2 * self.model.config.width if self._mix is None else self._mix.output_dim
        return size * (len(self.config.poolings) if self.config.output == "pooled" else 1)

    @property
    def row_shape(self) -> tuple[int, ...]:
        """The shape of what belongs to one text (pooled) or one word (tokens)."""
        return (self.dim,) if self._mix is not None else (1 + self.model.config.layers, self.dim)

    @torch.no_grad()
    def encode(
        self, texts: Sequence[Sequence[str]], on_texts: OnTexts | None = None
    ) -> list[Vectors]:
        """The vectors of each text, in order: (dim,), (words, dim) or, of all layers, one more."""
        found: dict[int, Vectors] = {}
        for group in self._groups(texts):
            found.update(zip(group.texts, self._vectors(group.activations), strict=True))
            if on_texts is not None:
                on_texts(len(group.texts), int(group.activations.lengths.sum()))
        return [found[number] for number in range(len(texts))]

    def _groups(self, texts: Sequence[Sequence[str]]) -> Iterator[GroupLayers]:
        if not texts:
            return
        size = self.batch_tokens
        if self.config.start != "carry":
            yield from read_alike(self.model, texts, size, self.state, self._wanted)
            return
        for group in read_in_order(
            self.model, texts, size, self.config.slots, self.state, self._wanted
        ):
            self.state = group.activations.state
            yield group

    def _vectors(self, read: LayerActivations) -> Iterator[Vectors]:
        """Of each text for itself, so that none keeps the memory of all."""
        mixed = read.layers.transpose(0, 1) if self._mix is None else self._mix(read.layers)
        if self.config.output == "pooled":
            yield from _arrays(pool(mixed, read.lengths, self.config.poolings))
            return
        lengths: list[int] = read.lengths.cpu().numpy().tolist()
        for row, length in zip(_arrays(mixed), lengths, strict=True):
            yield row[..., :length, :].copy()


def _arrays(values: Tensor) -> Vectors:
    return values.float().cpu().numpy()


def _wanted(config: EncodeConfig, model: BiLM) -> tuple[int, ...]:
    """The layers that are needed: where one is asked for, none above it is computed."""
    layer, layers = config.layer, 1 + model.config.layers
    if layer == "top":
        return (layers - 1,)
    if isinstance(layer, str):
        return tuple(range(layers))
    if 0 <= layer < layers:
        return (layer,)
    raise UserError(
        f"layer {layer} was asked for, but this model has layers 0 to {layers - 1}, 0 being "
        "the words alone"
    )


def _mix_for(config: EncodeConfig, model: BiLM, mix: LayerMix) -> LayerMix | None:
    """What is done with the layers that are wanted; nothing where all of them are asked for."""
    if config.layer == "all":
        return None
    if config.layer == "mix":
        return mix
    kind = config.layer if isinstance(config.layer, str) else "top"
    wanted = len(_wanted(config, model))
    return LayerMix(MixConfig(mix=kind), wanted, 2 * model.config.width).to(model.device)
