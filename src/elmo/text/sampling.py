"""A random sample of things that come one by one, drawn in one pass, the same for the same seed."""

from __future__ import annotations

import heapq
import random
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class Sample(Generic[T]):
    """Some of the things, in the order in which they came."""

    items: list[T]
    of: int
    """How many there were to draw from."""


def draw(things: Iterable[T], size: int, seed: int) -> Sample[T]:
    """Draw so many, or all if there are no more; only the sample is held in memory."""
    lots = random.Random(seed)
    seen = 0

    def numbered() -> Iterable[tuple[float, int, T]]:
        nonlocal seen
        for thing in things:
            yield lots.random(), seen, thing
            seen += 1

    # Those with the smallest lots are as random as any; lots and numbers decide, never the things.
    drawn = heapq.nsmallest(size, numbered(), key=lambda one: one[:2])
    return Sample([thing for _, _, thing in sorted(drawn, key=lambda one: one[1])], seen)
