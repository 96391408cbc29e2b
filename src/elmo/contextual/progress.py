"""How far a long job is, and how long it will take."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Progress:
    """What is done of a job."""

    texts: int
    total: int | None
    """How many texts there are, where that is known."""
    tokens: int
    tokens_per_second: float
    seconds_left: float | None
    """None where the number of texts is not known."""


Listener = Callable[[Progress], None]


class Pace:
    """Counts texts and words from now on, and tells the listener."""

    def __init__(self, listener: Listener, total: int | None, done: int = 0) -> None:
        self._listener = listener
        self._total = total
        self._before = done
        self._texts = done
        self._tokens = 0
        self._since = time.monotonic()

    def add(self, texts: int, tokens: int) -> None:
        """Count what was done since the last call."""
        self._texts += texts
        self._tokens += tokens
        elapsed = max(1e-9, time.monotonic() - self._since)
        speed = (self._texts - self._before) / elapsed
        left = None if self._total is None else (self._total - self._texts) / max(1e-9, speed)
        self._listener(
            Progress(self._texts, self._total, self._tokens, self._tokens / elapsed, left)
        )
