"""Cells side by side, each with a process and a thread of its own; results in the study's cache."""

from __future__ import annotations

import errno
import gc
import multiprocessing
import os
import signal
import threading
import time
import traceback
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, Literal, Protocol, cast

from elmo.errors import UserError
from elmo.runtime import cpu_cores, fork_context
from elmo.study.cells import OnFraction, Study
from elmo.study.rows import Cell

REPORT_EVERY = 0.2
"""Seconds between the reports of a cell."""
START_AGAIN, MOST_STARTS = 1.0, 60
"""Seconds between attempts to start a process that the system refuses, and how many of them."""

State = Literal["waiting", "running", "done", "cached", "failed"]


@dataclass(frozen=True)
class CellProgress:
    """How far a cell is. All cells of a study are reported as waiting when it starts."""

    name: str
    row: str
    """Title of the row or analysis that the cell belongs to."""
    state: State
    fraction: float = 0.0
    """How much of a running cell is done, 0 to 1."""
    work: float = 1.0
    """How long it takes, compared with others."""
    note: str = ""
    """Why it failed."""


class Tell(Protocol):
    """Called whenever the state of a cell changes."""

    def __call__(self, cell: Cell, state: State, fraction: float = 0.0, note: str = "") -> None: ...


def reading_cell(name: str) -> Cell:
    """A placeholder, in progress reports, for a biLM reading all texts."""
    return Cell(name=f"reading-{name}", row="Texts read by the biLM", kind="reading")


def run_cells(
    study: Study,
    cells: Iterable[Cell],
    tell: Tell = lambda cell, state, fraction=0.0, note="": None,
    processes: int | None = None,
) -> dict[str, Any]:
    """Results by name of the cells that succeed; messages of the others go to `study.failures`.

    Layers of one biLM at a time are in memory. Cells that need none run along with those of the
    first biLM: the more cells to choose from, the less a core waits for another at the end.
    """
    results: dict[str, Any] = {}
    waiting: list[Cell] = []
    for cell in cells:
        result = study.cached(cell)
        if result is None:
            waiting.append(cell)
        else:
            results[cell.name] = result
        tell(cell, "waiting" if result is None else "cached")
    # The longest first, so that at the end no core waits for another.
    rows, classes = study.data.train_count, len(study.data.labels)
    waiting.sort(key=lambda cell: -cell.work(rows, classes))
    without = [cell for cell in waiting if cell.bilm is None]
    names = dict.fromkeys(cell.bilm for cell in waiting if cell.bilm is not None)
    for name in [*names] or [None]:
        some = [cell for cell in waiting if cell in without or cell.bilm == name]
        if name is not None and name not in study.layers:
            reading = reading_cell(name)
            study.read_layers(name, lambda done, r=reading: tell(r, "running", done))
            tell(reading, "done")
        _compute(study, some, tell, processes or cpu_cores(), results)
        without = []
    return results


def _compute(
    study: Study, waiting: list[Cell], tell: Tell, processes: int, results: dict[str, Any]
) -> None:
    """One process and one thread per cell, so that one that dies takes no other with it.

    Without fork, one after the other in this process, each on all cores: a process that is spawned
    would get its own copy of the layers, which may be half of the memory or open files.
    """
    import torch

    # torch imports half of itself for its first optimizer, which takes a second or more:
    # here once rather than in each cell.
    torch.optim.AdamW([torch.zeros(1)])

    def end(cell: Cell, note: str | None) -> None:
        result = study.cached(cell) if note is None else None
        if result is not None:
            results[cell.name] = result
            tell(cell, "done", 1.0)
        else:
            note = note or "its result could not be read"
            study.failures.setdefault((cell.row, note), cell.name)
            tell(cell, "failed", note=note)

    context = fork_context()
    if context is None:
        for cell in waiting:
            tell(cell, "running")
            end(cell, _attempt(study, cell, partial(tell, cell, "running")))
        return
    running: dict[Connection, tuple[Cell, BaseProcess]] = {}
    messages: dict[str, str] = {}
    try:
        while waiting or running:
            while waiting and len(running) < processes:
                cell = waiting.pop(0)
                reader, writer = context.Pipe(duplex=False)
                process = context.Process(target=_work, args=(study, cell, writer), daemon=True)
                _start(process)
                writer.close()  # so that the pipe ends with the process, however that ends
                running[reader] = cell, process
                tell(cell, "running")
            for reader in cast("list[Connection]", wait(list(running))):
                cell, process = running[reader]
                try:
                    told: float | str = reader.recv()
                    if isinstance(told, str):
                        messages[cell.name] = told
                    else:
                        tell(cell, "running", told)
                except EOFError:
                    del running[reader]
                    process.join()
                    died = f"its process ended with code {process.exitcode}; out of memory?"
                    end(cell, messages.get(cell.name, died) if process.exitcode else None)
    finally:
        for _, process in running.values():
            process.kill()
            process.join()


def _start(process: BaseProcess) -> None:
    """Start a process; retry while the system is out of processes or memory."""
    for _ in range(MOST_STARTS):
        try:
            process.start()
            return
        except OSError as error:
            if error.errno not in (errno.EAGAIN, errno.ENOMEM):
                raise
            time.sleep(START_AGAIN)
    raise UserError(
        f"the system started no process for {MOST_STARTS * START_AGAIN:.0f} s; end others, or "
        "raise the limit of processes (ulimit -u). The same command resumes the study"
    )


def _work(study: Study, cell: Cell, writer: Connection) -> None:
    import torch
    from threadpoolctl import threadpool_limits

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends its processes itself
    end_with_parent()
    # A garbage collection would write to object headers and so copy memory shared with the parent.
    gc.freeze()
    torch.set_num_threads(1)
    with threadpool_limits(1):
        message = _attempt(study, cell, writer.send)
    if message is not None:
        writer.send(message)
        raise SystemExit(1)


def _attempt(study: Study, cell: Cell, on_fraction: OnFraction) -> str | None:
    """Compute and store a cell; returns why it failed, or None."""
    last = 0.0

    def report(fraction: float) -> None:
        nonlocal last
        if time.monotonic() - last > REPORT_EVERY:
            last = time.monotonic()
            on_fraction(fraction)

    try:
        study.store(cell, study.compute(cell, report))
    except UserError as error:
        return str(error)
    except Exception as error:
        traceback.print_exc()
        return f"unexpected: {type(error).__name__}: {error}"
    return None


def end_with_parent() -> None:
    """End this process when its parent is killed: it would keep the study's lock."""
    parent = multiprocessing.parent_process()
    assert parent is not None

    def wait_and_end(sentinel: int = parent.sentinel) -> None:
        wait([sentinel])
        os._exit(1)

    threading.Thread(target=wait_and_end, daemon=True).start()
