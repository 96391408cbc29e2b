"""Texts of different lengths side by side without padding: in rows, a step below the other."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Stretch:
    """Some steps in a row."""

    rows: slice
    sizes: list[int]


@dataclass(frozen=True)
class Way:
    """Which row is which step of which text: each step reads the first so many texts."""

    sizes: list[int]
    """How many texts each step reads, never more than the step before."""
    last: Tensor  # (batch,), the row of each text's last step; negative if it has none

    @property
    def is_filled(self) -> bool:
        """Whether the last step of all is that of the last text: no padding follows."""
        return int(self.last[-1]) == sum(self.sizes) - 1

    def stretches(self, rows: int | None) -> Iterator[Stretch]:
        """Cut the way where so many rows would be exceeded; none: not at all."""
        first, end = 0, 0
        sizes: list[int] = []
        for size in self.sizes:
            if sizes and rows is not None and end + size - first > rows:
                yield Stretch(slice(first, end), sizes)
                first, sizes = end, []
            end += size
            sizes.append(size)
        yield Stretch(slice(first, end), sizes)


def padded_way(steps: int, lengths: Tensor) -> Way:
    """The way through texts that are padded to so many steps."""
    batch = len(lengths)
    texts = torch.arange(batch, device=lengths.device)
    return Way([batch] * steps, (lengths - 1) * batch + texts)


@dataclass(frozen=True)
class Ragged:
    """Texts without padding: a step reads only those that are not at their end, longest first."""

    way: Way
    order: Tensor  # (batch,), the texts, longest first
    step: Tensor  # (rows,), which step each row is …
    text: Tensor  # (rows,), … of which text

    @classmethod
    def of(cls, lengths: Tensor) -> Ragged:
        """Of texts of so many steps, one of which at least has a step."""
        longest, order = lengths.sort(descending=True, stable=True)
        reads = torch.arange(int(longest[0]), device=lengths.device)[:, None] < longest
        step, place = reads.nonzero(as_tuple=True)
        rows = reads.flatten().cumsum(0).view_as(reads) - 1
        texts = torch.arange(len(lengths), device=lengths.device)
        last = torch.where(longest > 0, rows[(longest - 1).clamp(min=0), texts], -1)
        sizes: list[int] = reads.sum(1).cpu().numpy().tolist()
        return cls(Way(sizes, last), order, step, order[place])
