"""How far the making of static vectors is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Progress:
    """What is being done, and how much of it."""

    stage: str
    done: int = 0
    total: int | None = None
    """How many texts there are, where that is known."""


Listener = Callable[[Progress], None]


def ignore(progress: Progress) -> None:
    """Listen to nothing."""
