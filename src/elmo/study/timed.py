"""How long a study has worked, over all its sessions."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

from elmo.errors import UserError
from elmo.files import read_json, write_json
from elmo.study.progress import StepProgress, Watcher

SECONDS = "seconds.json"


@contextmanager
def timed(folder: Path, watcher: Watcher) -> Generator[tuple[Callable[[], float], Watcher]]:
    """Gives a function that tells all seconds so far, and a watcher that keeps them.

    They are kept with every step done, so that those of a killed session count, and at the end.
    """
    before, started = _seconds_before(folder), time.monotonic()

    def seconds() -> float:
        return before + time.monotonic() - started

    def keep() -> None:
        write_json(folder / SECONDS, {"seconds": seconds()})

    def watch(progress: StepProgress) -> None:
        if progress.state == "done":
            keep()
        watcher(progress)

    try:
        yield seconds, watch
    finally:
        keep()


def _seconds_before(folder: Path) -> float:
    try:
        return float(read_json(folder / SECONDS)["seconds"])
    except (UserError, KeyError, TypeError, ValueError):
        return 0.0
