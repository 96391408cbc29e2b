"""Stopping well: one process a run folder, and signals that end a run after the current step."""

from __future__ import annotations

import fcntl
import signal
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from elmo.errors import UserError
from elmo.files import explained


@contextmanager
def stopped_by_signals() -> Generator[Callable[[], bool]]:
    """Give a function that tells whether Ctrl-C or SIGTERM came; a second Ctrl-C stops at once."""
    came = threading.Event()

    def note(number: int, frame: FrameType | None) -> None:
        came.set()
        signal.signal(signal.SIGINT, signal.default_int_handler)

    if threading.current_thread() is not threading.main_thread():
        yield came.is_set
        return
    before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield came.is_set
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def locked(folder: Path) -> Generator[None]:
    """Keep other processes out of a run folder; the lock goes with the process that holds it."""
    try:
        stream = (folder / ".lock").open("w")
    except OSError as error:
        raise explained(error, folder) from error
    with stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UserError(f"{folder}: another process is training here") from None
        yield
