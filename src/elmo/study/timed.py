"""How long a study has worked, over all its sessions."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

from elmo.errors import UserError
from elmo.files import read_json, write_json

SECONDS = "seconds.json"


@contextmanager
def timed(folder: Path) -> Generator[Callable[[], float]]:
    """Gives a function that tells all seconds so far; they are kept when the session ends."""
    before, started = _seconds_before(folder), time.monotonic()

    def seconds() -> float:
        return before + time.monotonic() - started

    try:
        yield seconds
    finally:
        write_json(folder / SECONDS, {"seconds": seconds()})


def _seconds_before(folder: Path) -> float:
    try:
        return float(read_json(folder / SECONDS)["seconds"])
    except (UserError, KeyError, TypeError, ValueError):
        return 0.0
