"""Steps side by side: a process and a thread each, every result kept as soon as it is there."""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import signal
import threading
import time
import traceback
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from queue import Empty
from typing import Any, Literal, TypeVar

from elmo.config import Json, from_json, to_json
from elmo.errors import UserError
from elmo.files import read_json, write_json
from elmo.runtime import cpu_cores, process_context
from elmo.study.config import StudyConfig
from elmo.study.data import LabelledParts
from elmo.training.config import PretrainConfig

# What to study, on which texts, and where the results go.


@dataclass(frozen=True, kw_only=True)
class StudyRequest:
    """A study to be done, or gone on with."""

    parts: LabelledParts
    out: Path
    config: StudyConfig
    model: Path | None = None
    """A biLM that was trained before; none: one is trained on the training texts."""
    pretraining: PretrainConfig
    feature_memory: float | None = None
    shows_texts: bool = True
    senses: Path | None = None
    """Where the senses of ambiguous words in the test part are known."""
    preset: str = ""
    command: str = ""


# Finished steps of a study, a file each: what is there for the same inputs is not done again.


T = TypeVar("T")


@dataclass(frozen=True)
class Steps:
    """A folder of finished steps."""

    folder: Path

    def known(self, name: str, inputs: Json, kind: type[T]) -> T | None:
        """What the step gave for just these inputs, or none if it must be done."""
        path = self.path(name)
        if not path.is_file():
            return None
        try:
            found = read_json(path)
            if found["inputs"] != inputs_key(inputs):
                return None
            return from_json(kind, found["result"], path.name)
        except (UserError, KeyError, TypeError):
            # A file of another version, or damaged: the step is done again.
            return None

    def keep(self, name: str, inputs: Json, result: object) -> None:
        """Write what the step gave."""
        kept = {"name": name, "inputs": inputs_key(inputs), "result": to_json(result)}
        write_json(self.path(name), kept)

    def path(self, name: str) -> Path:
        """Where a step is kept."""
        return self.folder / f"{name}.json"


def inputs_key(inputs: Json) -> str:
    """A hash of everything that a step's result depends on."""
    return hashlib.sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest()


# What a study tells those who watch it: which steps are done, running and to come.


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


SECONDS_BETWEEN_LOOKS = 0.2


@dataclass(frozen=True, kw_only=True)
class Job:
    """A step that needs nothing of the steps beside it."""

    name: str
    row: str
    """The row or analysis it is for."""
    inputs: Json
    """Everything that its result depends on."""
    kind: type[Any]
    """Of what it gives."""
    run: Callable[[OnShare], object]
    weight: float = 1.0
    needs_bilm: str | None = None
    """The biLM whose layers it reads, which are computed before."""


@dataclass(frozen=True)
class Failure:
    """Why a step gave nothing."""

    message: str


Results = dict[str, Any]
"""What each step gave, by its name: an instance of its kind, or a Failure."""


def known_results(jobs: Sequence[Job], steps: Steps, watcher: Watcher) -> Results:
    """What earlier sessions have done already."""
    found: Results = {}
    for job in jobs:
        result = steps.known(job.name, job.inputs, job.kind)
        state = "waiting" if result is None else "kept"
        watcher(StepProgress(name=job.name, row=job.row, state=state, weight=job.weight))
        if result is not None:
            found[job.name] = result
    return found


def run_jobs(
    jobs: Sequence[Job], steps: Steps, watcher: Watcher, processes: int | None = None
) -> Results:
    """Do what is not done yet, on as many cores as there are; one that fails stops no other."""
    results = known_results(jobs, steps, watcher)
    # The longest first, so that at the end no core waits for another.
    waiting = sorted(
        (job for job in jobs if job.name not in results), key=lambda job: job.weight, reverse=True
    )
    together = processes or cpu_cores()
    running: dict[str, _Running] = {}
    try:
        while waiting or running:
            while waiting and len(running) < together:
                job = waiting.pop(0)
                running[job.name] = _Running(job, steps)
                watcher(_progress(job, "running"))
            _look_after(running, steps, watcher, results)
    finally:
        for one in running.values():
            one.process.kill()
            one.process.join()
    return results


def failures(results: Mapping[str, Any]) -> dict[str, str]:
    """The messages of the steps that failed."""
    return {name: one.message for name, one in results.items() if isinstance(one, Failure)}


class _Running:
    """A job in a process of its own, which shares what was computed before."""

    def __init__(self, job: Job, steps: Steps) -> None:
        context = process_context()
        self.job = job
        self.told: Any = context.Queue()
        self.share = 0.0
        self.failure: str | None = None
        self.process: BaseProcess = context.Process(
            target=_work, args=(job, steps, self.told), daemon=True
        )
        self.process.start()

    def listen(self) -> None:
        """Hear how far it is, or why it fails."""
        while True:
            try:
                heard = self.told.get_nowait()
            except Empty:
                return
            if isinstance(heard, str):
                self.failure = heard
            else:
                self.share = heard


def _look_after(
    running: dict[str, _Running], steps: Steps, watcher: Watcher, results: Results
) -> None:
    time.sleep(SECONDS_BETWEEN_LOOKS)
    for name, one in list(running.items()):
        ended = not one.process.is_alive()
        one.listen()
        if not ended:
            watcher(_progress(one.job, "running", one.share))
            continue
        del running[name]
        result = steps.known(name, one.job.inputs, one.job.kind)
        if one.process.exitcode == 0 and result is not None:
            results[name] = result
            watcher(_progress(one.job, "done", 1.0))
        else:
            message = one.failure or _died(one.process.exitcode)
            results[name] = Failure(message)
            watcher(_progress(one.job, "failed", note=message))


def _work(job: Job, steps: Steps, told: Any) -> None:
    """What happens in the process."""
    import torch
    from threadpoolctl import threadpool_limits

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    end_with_parent()
    torch.set_num_threads(1)
    last = 0.0

    def tell(share: float) -> None:
        nonlocal last
        if time.monotonic() - last > SECONDS_BETWEEN_LOOKS:
            last = time.monotonic()
            told.put(share)

    try:
        with threadpool_limits(1):
            steps.keep(job.name, job.inputs, job.run(tell))
    except UserError as error:
        _fail(told, str(error))
    except Exception as error:
        traceback.print_exc()
        _fail(told, f"unexpected: {type(error).__name__}: {error}")


def end_with_parent() -> None:
    """When the process that started this one is killed, this one ends too.

    With the steps of a study its lock is free.
    """
    parent = multiprocessing.parent_process()
    assert parent is not None
    threading.Thread(target=_wait_and_end, args=(parent.sentinel,), daemon=True).start()


def _wait_and_end(sentinel: int) -> None:
    wait([sentinel])
    os._exit(1)


def _fail(told: Any, message: str) -> None:
    told.put(message)
    told.close()
    told.join_thread()
    raise SystemExit(1)


def _died(code: int | None) -> str:
    return f"its process ended with code {code}; perhaps there was not enough memory"


def _progress(job: Job, state: Any, share: float = 0.0, note: str = "") -> StepProgress:
    return StepProgress(
        name=job.name, row=job.row, state=state, share=share, weight=job.weight, note=note
    )


# How long a study has worked, over all its sessions.


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
