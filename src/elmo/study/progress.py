"""What a study tells those who watch it: which steps are done, running and to come."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

State = Literal["waiting", "running", "done", "kept", "failed"]
"""kept: done by an earlier session of the same study."""


@dataclass(frozen=True, kw_only=True)
class StepProgress:
    """How far one step is."""

    name: str
    row: str
    """The row or analysis that the step belongs to."""
    state: State
    share: float = 0.0
    """What lies behind of a running step."""
    weight: float = 1.0
    """How much work it is, compared with others."""
    note: str = ""
    """What came of it, or what it is at."""


Watcher = Callable[[StepProgress], None]
OnShare = Callable[[float], None]
"""Told what share of one step lies behind."""


def nobody(progress: StepProgress) -> None:
    """Watches nothing."""
