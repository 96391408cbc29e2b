"""The layers of a word become one vector: gamma * sum_j s_j h_j, or a function of them all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from elmo.config import check
from elmo.embed.config import MixConfig
from elmo.errors import UserError


@dataclass(frozen=True)
class PackedLayers:
    """The layers of a frozen biLM side by side; layer 0, equal in both directions, is stored once.

    Usually stored in half precision; every result is in single precision.
    """

    values: Tensor  # (batch, words, (1 + 2 * layers) * width)
    width: int

    @classmethod
    def of(cls, layers: Tensor, precision: torch.dtype | None = None) -> PackedLayers:
        """Pack (1 + layers, batch, words, 2 * width), converted to `precision`."""
        count, texts, words, dim = layers.shape
        shape = (texts, words, count * dim - dim // 2)
        values = torch.empty(shape, dtype=precision or layers.dtype, device=layers.device)
        values[..., : dim // 2] = layers[0, ..., : dim // 2]
        others = torch.split(values[..., dim // 2 :], dim, dim=2)
        for source, target in zip(layers[1:], others, strict=True):
            target.copy_(source)
        return cls(values, dim // 2)

    @property
    def exact(self) -> Tensor:
        """The values in `exact_dtype`."""
        return self.values.to(self.exact_dtype)

    def unpacked(self) -> Tensor:
        """All layers, (1 + layers, batch, words, 2 * width)."""
        return self.spread(self.exact).permute(2, 0, 1, 3)

    def summed(self, factors: Tensor) -> Tensor:
        """The weighted sum of the layers, (batch, words, 2 * width), without a gradient."""
        weights = [float(factor) for factor in factors.detach().cpu().unbind()]
        texts, words, _ = self.values.shape
        parts = self.values.view(texts, words, 2 * len(weights) - 1, self.width)
        layers = [parts[:, :, :1], *torch.split(parts[:, :, 1:], 2, dim=2)]
        # A sum over two dtypes takes twice as long as to convert a layer and to add it: 1.9 against
        # 1.0 ms for 64 texts of 40 words, one layer alone 0.8 against 0.15 ms.
        total: Tensor | None = None
        for layer, weight in zip(reversed(layers), reversed(weights), strict=True):
            if weight:
                layer = layer.to(self.exact_dtype)
                if total is None:
                    total = layer if weight == 1 else layer * weight
                else:
                    total.add_(layer, alpha=weight)
        if total is None:
            return self.values.new_zeros(texts, words, 2 * self.width, dtype=self.exact_dtype)
        return total.expand(texts, words, 2, self.width).flatten(2)

    def at(self, positions: Tensor) -> Tensor:
        """Gather all layers, each feature at its own word: (batch, 1 + layers, 2 * width).

        `positions`, (batch, 2 * width), has the word of each feature, as `max(dim=1)` returns it.
        """
        halves = positions.view(len(positions), 2, self.width)
        parts = torch.split(self.values, self.width, dim=2)
        # Layer 0 serves both directions; the other parts alternate forward, backward.
        layers = [parts[0].gather(1, halves)]
        for index, part in enumerate(parts[1:]):
            layers.append(part.gather(1, halves[:, index % 2, None]))
        return (
            torch.cat(layers, dim=1).view(len(positions), -1, 2 * self.width).to(self.exact_dtype)
        )

    def spread(self, values: Tensor) -> Tensor:
        """Unpack values of the packed size, (…, size), by layer: (…, 1 + layers, 2 * width)."""
        doubled = torch.cat([values[..., : self.width], values], dim=-1)
        layers = doubled.shape[-1] // (2 * self.width)
        return doubled.view(*values.shape[:-1], layers, 2 * self.width)

    def folded(self, weights: Tensor) -> Tensor:
        """Fold weights over unpacked layers, (…, (1 + layers) * dim), into weights over packed."""
        forward, backward = weights[..., : self.width], weights[..., self.width : 2 * self.width]
        return torch.cat([forward + backward, weights[..., 2 * self.width :]], dim=-1)

    @property
    def exact_dtype(self) -> torch.dtype:
        """Single precision or better."""
        return torch.promote_types(self.values.dtype, torch.float32)


def product(layer: nn.Linear, values: Tensor, dtype: torch.dtype | None) -> Tensor:
    """The output of a linear layer, multiplied in `dtype`, in the dtype of its values."""
    if dtype is None:
        return layer(values)
    weight, bias = layer.weight.to(dtype), layer.bias.to(dtype)
    return functional.linear(values.to(dtype), weight, bias).to(values.dtype)


def dropped(values: Tensor, rate: float, random: torch.Generator | None) -> Tensor:
    """Dropout with its own generator; without `random` nothing is dropped."""
    if random is None or rate == 0:
        return values
    # Drawing random numbers takes most of the time: each draw of 64 bits decides on four values.
    count = values.numel()
    draws = torch.empty(-(-count // 4), dtype=torch.int64, device=random.device)
    draws.random_(torch.iinfo(torch.int64).min, None, generator=random)
    bits = draws.view(torch.int16)[:count].view(values.shape)
    threshold = torch.iinfo(torch.int16).min + min(round(rate * (1 << 16)), (1 << 16) - 1)
    return values * (bits >= threshold).to(values.dtype).mul_(1 / (1 - rate))


ACTIVATIONS = {"relu": nn.ReLU, "tanh": nn.Tanh, "gelu": nn.GELU}


class LayerMix(nn.Module):
    """Mixes (layers, …, words, dim) into (…, words, output_dim).

    >>> mix = LayerMix(MixConfig(mix="trainable"), layers=3, dim=512)
    >>> mix(torch.randn(3, 7, 512)).shape
    torch.Size([7, 512])
    """

    fixed: Tensor
    scale: Tensor

    def __init__(self, config: MixConfig, layers: int, dim: int) -> None:
        super().__init__()
        check(config)
        if config.mix == "layer" and config.mix_layer >= layers:
            raise UserError(
                f"mix_layer: expected one of layers 0 to {layers - 1}, got {config.mix_layer}"
            )
        if config.layer_weights is not None and len(config.layer_weights) != layers:
            given = len(config.layer_weights)
            raise UserError(f"expected {layers} weights, one per layer, got {given}")
        self.config, self.layers, self.dim = config, layers, dim
        self.compute_dtype: torch.dtype | None = None
        """dtype of the products of a learned function; None: that of the factors."""
        self.is_sum = config.is_sum
        random = torch.Generator().manual_seed(config.mix_seed)
        self.logits: nn.Parameter | None = None
        self.function: nn.Sequential | None = None
        if config.mix == "trainable":
            start = config.layer_weights or (1 / layers,) * layers
            self.logits = nn.Parameter(_logits(start))
            self.scale = nn.Parameter(torch.tensor(config.gamma))
        elif self.is_sum:
            self.register_buffer("fixed", _fixed_weights(config, layers, random))
            self.register_buffer("scale", torch.tensor(config.gamma))
        elif config.mix == "function":
            if config.function_average and config.function_dim not in (None, dim):
                raise UserError(
                    f"function_dim: a learned function of size {config.function_dim} cannot be "
                    f"added to the average of layers of size {dim}; leave function_dim out, or set "
                    "function_average to false"
                )
            self.function = _network(config, layers * dim, config.function_dim or dim, random)

    @property
    def output_dim(self) -> int:
        """The size of a mixed vector."""
        if self.config.mix == "concatenation":
            return self.layers * self.dim
        return (self.config.function_dim or self.dim) if self.function is not None else self.dim

    @property
    def learned_factors(self) -> Tensor | None:
        """gamma * s of a trainable mix that is nothing but a weighted sum; otherwise None."""
        plain = not (self.config.layer_norm or self.config.mix_dropout)
        return self.scale * self._weights() if self.logits is not None and plain else None

    @property
    def weights(self) -> tuple[float, ...] | None:
        """The normalised weight s of each layer; None if layers are not summed."""
        if not self.is_sum:
            return None
        return tuple(float(weight) for weight in self._weights().detach().cpu().unbind())

    @property
    def gamma(self) -> float | None:
        """The scale of the sum; None if layers are not summed."""
        return float(self.scale.detach()) if self.is_sum else None

    def extra_repr(self) -> str:
        """What `repr` shows: the kind of mix, and its weights if it is a sum."""
        shown = f"{self.config.mix}, {self.layers} layers of {self.dim}"
        if self.weights is None:
            return shown
        weights = ", ".join(f"{weight:.3f}" for weight in self.weights)
        return f"{shown}, weights ({weights}), gamma {self.gamma:.3f}"

    def penalty(self) -> Tensor:
        """The regularisation λ|w|² of the paper, to be added to a loss.

        w are the weights before the softmax: their norm is smallest when all layers weigh the same.
        """
        if self.logits is None:
            return torch.zeros(())
        return self.config.mix_pull * self.logits.square().sum()

    def forward(
        self, layers: Tensor | PackedLayers, random: torch.Generator | None = None
    ) -> Tensor:
        """Mix the layers; `random` draws the dropout, default: no dropout.

        A learned function has non-zero outputs at padding too: mask them.
        """
        if isinstance(layers, PackedLayers):
            mixed = self._combine_packed(layers)
        else:
            mixed = self._combine(layers)
        return dropped(mixed, self.config.mix_dropout, random)

    def _combine(self, layers: Tensor) -> Tensor:
        if self.config.layer_norm:
            layers = functional.layer_norm(layers, layers.shape[-1:])
        if self.config.mix in ("layer", "top"):
            layer = layers[_chosen(self.config, self.layers)]
            return layer if self.config.gamma == 1 else self.scale * layer
        if self.is_sum:
            if (
                self.logits is None and self.layers == 1
            ):  # static vectors: nothing to sum, or to learn
                return layers[0] if self.config.gamma == 1 else self.scale * layers[0]
            return torch.einsum("l,l...d->...d", (self.scale * self._weights()).to(layers), layers)
        side_by_side = layers.movedim(0, -2).flatten(-2)  # (…, words, layers * dim)
        if self.function is None:
            return side_by_side
        learned = self.function(side_by_side)
        return learned + layers.mean(0) if self.config.function_average else learned

    def _combine_packed(self, packed: PackedLayers) -> Tensor:
        """The same on packed layers, without unpacking them if the mix allows it."""
        is_fixed_sum = self.is_sum and self.logits is None
        if self.config.layer_norm or not (is_fixed_sum or self.function is not None):
            return self._combine(packed.unpacked())
        if self.function is None:
            return packed.summed(self.scale * self.fixed)
        first, activation, last = self.function
        assert isinstance(first, nn.Linear)
        assert isinstance(last, nn.Linear)
        dtype = self.compute_dtype or packed.exact_dtype
        folded = packed.folded(first.weight).to(dtype)
        hidden = functional.linear(packed.exact.to(dtype), folded, first.bias.to(dtype))
        learned = product(last, activation(hidden), self.compute_dtype).to(packed.exact_dtype)
        if not self.config.function_average:
            return learned
        return learned + packed.summed(torch.full((self.layers,), 1 / self.layers))

    def _weights(self) -> Tensor:
        return self.fixed if self.logits is None else self.logits.softmax(dim=0)


def _logits(weights: Sequence[float]) -> Tensor:
    """The vector of least norm whose softmax is `weights`."""
    logs = np.log(np.array(weights, np.float64))
    return torch.from_numpy(logs - logs.mean()).float()


def _fixed_weights(config: MixConfig, layers: int, random: torch.Generator) -> Tensor:
    if config.mix == "average":
        return torch.full((layers,), 1 / layers)
    if config.mix == "frozen" and config.layer_weights is not None:
        return _normalised(config.layer_weights)
    if config.mix == "frozen":
        # Normalised exponentials: uniform over all weights of sum 1.
        parts = -torch.rand(layers, generator=random, dtype=torch.float64).neg().log1p()
        return (parts / parts.sum()).float()
    return functional.one_hot(torch.tensor(_chosen(config, layers)), layers).float()


def _chosen(config: MixConfig, layers: int) -> int:
    return config.mix_layer if config.mix == "layer" else layers - 1


def _normalised(weights: Sequence[float]) -> Tensor:
    values = np.array(weights, np.float64)
    return torch.from_numpy(values / values.sum()).float()


def _network(
    config: MixConfig, inputs: int, outputs: int, random: torch.Generator
) -> nn.Sequential:
    hidden = config.function_hidden
    first, last = nn.Linear(inputs, hidden), nn.Linear(hidden, outputs)
    for linear in (first, last):
        nn.init.xavier_uniform_(linear.weight, generator=random)
        nn.init.zeros_(linear.bias)
    if config.function_average:  # starts as the average itself, and learns what to add
        nn.init.zeros_(last.weight)
    return nn.Sequential(first, ACTIVATIONS[config.function_activation](), last)
