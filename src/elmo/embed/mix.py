"""The layers of a word become one vector: gamma * sum_j s_j h_j, or a function of them all."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Size, Tensor, nn
from torch.nn import functional

from elmo.config import check
from elmo.embed.config import MixConfig, weight_problems
from elmo.errors import ConfigError, UserError

# Layers that do not learn, side by side: layer 0, the same for both directions, is held once.


@dataclass(frozen=True)
class PackedLayers:
    """The layers of some texts, in half precision as a rule; computed with in single precision."""

    values: Tensor  # (batch, words, (1 + 2 * layers) * width)
    width: int

    @classmethod
    def of(cls, layers: Tensor, precision: torch.dtype | None = None) -> PackedLayers:
        """Pack (1 + layers, batch, words, 2 * width), in another precision if one is given."""
        number, texts, words, dim = layers.shape
        shape = (texts, words, number * dim - dim // 2)
        values = torch.empty(shape, dtype=precision or layers.dtype, device=layers.device)
        values[..., : dim // 2] = layers[0, ..., : dim // 2]
        others = torch.split(values[..., dim // 2 :], dim, dim=2)
        for layer, into in zip(layers[1:], others, strict=True):
            into.copy_(layer)
        return cls(values, dim // 2)

    @property
    def exact(self) -> Tensor:
        """The values in single precision, or better."""
        return self.values.to(self._dtype)

    def unpacked(self) -> Tensor:
        """All layers, (1 + layers, batch, words, 2 * width)."""
        return self.spread(self.exact).permute(2, 0, 1, 3)

    def summed(self, factors: Tensor) -> Tensor:
        """The sum of the layers, each times its factor, (batch, words, 2 * width); no gradient."""
        shares = [float(factor) for factor in factors.detach().cpu().unbind()]
        texts, words, _ = self.values.shape
        parts = self.values.view(texts, words, 2 * len(shares) - 1, self.width)
        layers = [parts[:, :, :1], *torch.split(parts[:, :, 1:], 2, dim=2)]
        counted = [number for number, share in enumerate(shares) if share]
        kind, where = self._dtype, self.values.device
        total = torch.empty(texts, words, 2, self.width, dtype=kind, device=where)
        first = counted[0] if counted else 0
        total.copy_(layers[first])
        if shares[first] != 1:
            total.mul_(shares[first])
        for number in counted[1:]:
            total.add_(layers[number], alpha=shares[number])
        return total.flatten(2)

    def at(self, places: Tensor) -> Tensor:
        """Of each number of a vector the layers at its own word, (batch, 1 + layers, 2 * width)."""
        halves = places.view(len(places), 2, self.width)
        parts = torch.split(self.values, self.width, dim=2)
        # Layer 0 is asked twice, the parts of all others once, forward and backward in turn.
        found = [parts[0].gather(1, halves)]
        for number, part in enumerate(parts[1:]):
            found.append(part.gather(1, halves[:, number % 2, None]))
        return torch.cat(found, dim=1).view(len(places), -1, 2 * self.width).to(self._dtype)

    def spread(self, values: Tensor) -> Tensor:
        """Numbers that lie as the packed ones do, by layer: (…, size), (…, 1 + layers, dim)."""
        doubled = torch.cat([values[..., : self.width], values], dim=-1)
        layers = doubled.shape[-1] // (2 * self.width)
        return doubled.view(*values.shape[:-1], layers, 2 * self.width)

    def folded(self, weights: Tensor) -> Tensor:
        """Weights of all layers' numbers, (…, (1 + layers) * dim), as weights of the packed."""
        forward, backward = weights[..., : self.width], weights[..., self.width : 2 * self.width]
        return torch.cat([forward + backward, weights[..., 2 * self.width :]], dim=-1)

    @property
    def _dtype(self) -> torch.dtype:
        return torch.promote_types(self.values.dtype, torch.float32)


# Dropout by a given source of chance.


LONG, SHORT = torch.iinfo(torch.int64), torch.iinfo(torch.int16)
STEPS = 1 << SHORT.bits


def dropped(values: Tensor, share: float, random: torch.Generator | None) -> Tensor:
    """Drop a share of the values and scale up the others; nothing without `random`."""
    if random is None or share == 0:
        return values
    kept = _kept(values.shape, share, random).to(values.dtype)
    return values * kept.mul_(1 / (1 - share))


def _kept(shape: Size, share: float, random: torch.Generator) -> Tensor:
    """Which values stay. To draw takes longest, so each draw of 64 bits decides on four values."""
    count = math.prod(shape)
    draws = torch.empty(-(-count // 4), dtype=torch.int64, device=random.device)
    draws.random_(LONG.min, None, generator=random)
    bits = draws.view(torch.int16)[:count].view(shape)
    return bits >= SHORT.min + min(round(share * STEPS), STEPS - 1)


ACTIVATIONS = {"relu": nn.ReLU, "tanh": nn.Tanh, "gelu": nn.GELU}


class LayerMix(nn.Module):
    """Mixes (layers, …, words, dim) into (…, words, output_dim)."""

    fixed: Tensor
    scale: Tensor

    def __init__(self, config: MixConfig, layers: int, dim: int) -> None:
        super().__init__()
        check(config)
        _check_layers(config, layers)
        self.config = config
        self.layers = layers
        self.dim = dim
        random = torch.Generator().manual_seed(config.mix_seed)
        self.logits: nn.Parameter | None = None
        self.function: nn.Sequential | None = None
        if config.mix == "trainable":
            start = config.layer_weights or (1 / layers,) * layers
            self.logits = nn.Parameter(_logits(start))
            self.scale = nn.Parameter(torch.tensor(config.gamma))
        elif config.is_sum:
            self.register_buffer("fixed", _fixed_weights(config, layers, random))
            self.register_buffer("scale", torch.tensor(config.gamma))
        elif config.mix == "function":
            _check_size(config, dim)
            self.function = _network(config, layers * dim, config.function_dim or dim, random)

    @property
    def output_dim(self) -> int:
        """The size of a mixed vector."""
        if self.config.mix == "concatenation":
            return self.layers * self.dim
        return (self.config.function_dim or self.dim) if self.function is not None else self.dim

    @property
    def learned_factors(self) -> Tensor | None:
        """What layers are multiplied by to be summed; none where the mix is fixed, or more."""
        plain = not (self.config.layer_norm or self.config.mix_dropout)
        return self.scale * self._shares() if self.logits is not None and plain else None

    @property
    def weights(self) -> tuple[float, ...] | None:
        """The share of each layer, normalised; none where layers are not summed."""
        if not self.config.is_sum:
            return None
        return tuple(float(share) for share in self._shares().detach().cpu().unbind())

    @property
    def gamma(self) -> float | None:
        """The scale of the sum; none where layers are not summed."""
        return float(self.scale.detach()) if self.config.is_sum else None

    def set_weights(self, weights: Sequence[float], gamma: float | None = None) -> None:
        """Set the normalised weights and, if given, the scale, of a trainable or frozen mix."""
        given = tuple(weights)
        if self.config.mix not in ("trainable", "frozen"):
            raise UserError(f"a mix of the kind {self.config.mix!r} has no weights to set")
        problems = list(weight_problems(given, positive=self.logits is not None))
        if problems:
            raise ConfigError(problems)
        _check_number(given, self.layers)
        with torch.no_grad():
            if self.logits is not None:
                self.logits.copy_(_logits(given))
            else:
                self.fixed.copy_(_normalised(given))
            if gamma is not None:
                self.scale.fill_(gamma)

    def penalty(self) -> Tensor:
        """What the pull towards the average adds to a loss: pull * |w|^2, as in the paper.

        w are the weights before the softmax, whose norm is least when all layers weigh alike.
        """
        if self.logits is None:
            return torch.zeros(())
        return self.config.mix_pull * self.logits.square().sum()

    def forward(
        self, layers: Tensor | PackedLayers, random: torch.Generator | None = None
    ) -> Tensor:
        """Mix; `random` draws the dropout, and without it nothing is dropped.

        A learned function gives something at padding too: mask what is made of it.
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
        if self.config.is_sum:
            return torch.einsum("l,l...d->...d", (self.scale * self._shares()).to(layers), layers)
        side_by_side = layers.movedim(0, -2).flatten(-2)  # (…, words, layers * dim)
        if self.function is None:
            return side_by_side
        learned = self.function(side_by_side)
        return learned + layers.mean(0) if self.config.function_average else learned

    def _combine_packed(self, packed: PackedLayers) -> Tensor:
        """The same without unpacking, where that can be."""
        is_fixed_sum = self.config.is_sum and self.logits is None
        if self.config.layer_norm or not (is_fixed_sum or self.function is not None):
            return self._combine(packed.unpacked())
        if self.function is None:
            return packed.summed(self.scale * self.fixed)
        first, activation, last = self.function
        assert isinstance(first, nn.Linear)
        hidden = functional.linear(packed.exact, packed.folded(first.weight), first.bias)
        learned = last(activation(hidden))
        if not self.config.function_average:
            return learned
        return learned + packed.summed(torch.full((self.layers,), 1 / self.layers))

    def _shares(self) -> Tensor:
        return self.fixed if self.logits is None else self.logits.softmax(dim=0)


def _check_layers(config: MixConfig, layers: int) -> None:
    if config.mix == "layer" and config.mix_layer >= layers:
        raise UserError(
            f"layer {config.mix_layer} was asked for, but there are layers 0 to {layers - 1}"
        )
    if config.layer_weights is not None:
        _check_number(config.layer_weights, layers)


def _check_size(config: MixConfig, dim: int) -> None:
    if config.function_average and config.function_dim not in (None, dim):
        raise UserError(
            f"a learned function of size {config.function_dim} cannot be added to the average of "
            f"layers of size {dim}; use --no-function-average, or leave --function-dim out"
        )


def _check_number(weights: Sequence[float], layers: int) -> None:
    if len(weights) != layers:
        raise UserError(f"expected {layers} weights, one a layer, got {len(weights)}")


def _logits(weights: Sequence[float]) -> Tensor:
    """The numbers of least norm whose softmax the weights are."""
    logs = np.log(np.array(weights, np.float64))
    return torch.from_numpy(logs - logs.mean()).float()


def _fixed_weights(config: MixConfig, layers: int, random: torch.Generator) -> Tensor:
    if config.mix == "average":
        return torch.full((layers,), 1 / layers)
    if config.mix == "frozen":
        return (
            _drawn(layers, random)
            if config.layer_weights is None
            else _normalised(config.layer_weights)
        )
    return functional.one_hot(torch.tensor(_chosen(config, layers)), layers).float()


def _chosen(config: MixConfig, layers: int) -> int:
    """Which layer is the mix, where it is a single one."""
    return config.mix_layer if config.mix == "layer" else layers - 1


def _normalised(weights: Sequence[float]) -> Tensor:
    given = np.array(weights, np.float64)
    return torch.from_numpy(given / given.sum()).float()


def _drawn(layers: int, random: torch.Generator) -> Tensor:
    """Weights drawn so that all of sum 1 are equally likely."""
    parts = -torch.rand(layers, generator=random, dtype=torch.float64).neg().log1p()
    return (parts / parts.sum()).float()


def _network(
    config: MixConfig, inputs: int, outputs: int, random: torch.Generator
) -> nn.Sequential:
    first, last = (
        nn.Linear(inputs, config.function_hidden),
        nn.Linear(config.function_hidden, outputs),
    )
    for linear in (first, last):
        nn.init.xavier_uniform_(linear.weight, generator=random)
        nn.init.zeros_(linear.bias)
    if config.function_average:
        nn.init.zeros_(last.weight)
    return nn.Sequential(first, ACTIVATIONS[config.function_activation](), last)
