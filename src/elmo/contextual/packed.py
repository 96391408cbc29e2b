"""Layers that do not learn, side by side: layer 0, the same for both directions, is held once."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


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
