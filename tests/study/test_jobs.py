"""Steps side by side: kept as soon as they are done, and one that fails stops no other."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

from elmo.errors import UserError
from elmo.study.jobs import (
    SECONDS,
    Failure,
    Job,
    OnShare,
    StepProgress,
    Steps,
    inputs_key,
    nobody,
    run_jobs,
    timed,
)
from elmo.study.results import Spread

# The seconds of all sessions add up, those of a failed one too.


def test_sessions_add_up(tmp_path: Path) -> None:
    def stopped() -> None:
        with timed(tmp_path, nobody):
            time.sleep(0.05)
            raise RuntimeError("stopped")

    with pytest.raises(RuntimeError, match="stopped"):
        stopped()
    with timed(tmp_path, nobody) as (seconds, _):
        assert 0.05 <= seconds() < 5


def _killed_after_a_step(folder: Path) -> None:
    with timed(folder, nobody) as (_, watch):
        time.sleep(0.05)
        watch(StepProgress(name="one", row="one", state="done"))
        os.kill(os.getpid(), signal.SIGKILL)


def test_a_killed_session_counts_up_to_its_last_step(tmp_path: Path) -> None:
    process = multiprocessing.get_context("fork").Process(
        target=_killed_after_a_step, args=(tmp_path,)
    )
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    with timed(tmp_path, nobody) as (seconds, _):
        assert 0.05 <= seconds() < 5


def test_watchers_are_told_all_the_same(tmp_path: Path) -> None:
    told: list[StepProgress] = []
    steps = [StepProgress(name="one", row="one", state=state) for state in ("running", "done")]
    with timed(tmp_path, told.append) as (_, watch):
        for step in steps:
            watch(step)
    assert told == steps


def test_a_damaged_file_counts_as_nothing(tmp_path: Path) -> None:
    (tmp_path / SECONDS).write_text("{")
    with timed(tmp_path, nobody) as (seconds, _):
        assert seconds() < 5


@dataclass(frozen=True)
class Number:
    value: int


def job(name: str, run: Callable[[OnShare], object]) -> Job:
    return Job(name=name, row=name, inputs={"name": name}, kind=Number, run=run)


def ended(name: str, heard: list[StepProgress]) -> list[str]:
    return [one.state for one in heard if one.name == name and one.state != "running"]


def fails(message: str) -> Callable[[OnShare], object]:
    def run(on_share: OnShare) -> object:
        raise UserError(message)

    return run


def test_every_result_is_there_whatever_else_fails(tmp_path: Path) -> None:
    def dies(on_share: OnShare) -> object:
        os.kill(os.getpid(), signal.SIGKILL)

    def breaks(on_share: OnShare) -> object:
        raise ZeroDivisionError("no such number")

    jobs = [
        job("good", lambda on_share: Number(1)),
        job("mistake", fails("too few rows")),
        job("dead", dies),
        job("broken", breaks),
        job("threads", lambda on_share: Number(torch.get_num_threads())),
    ]
    heard: list[StepProgress] = []
    results = run_jobs(jobs, Steps(tmp_path), heard.append, processes=2)
    assert results["good"] == Number(1)
    assert results["threads"] == Number(1)
    assert results["mistake"] == Failure("too few rows")
    assert "code -9" in results["dead"].message
    assert results["broken"] == Failure("unexpected: ZeroDivisionError: no such number")
    assert ended("good", heard) == ["waiting", "done"]
    assert ended("mistake", heard) == ["waiting", "failed"]


def test_what_is_done_is_not_done_again(tmp_path: Path) -> None:
    steps = Steps(tmp_path)
    first = [job("one", lambda on_share: Number(1)), job("two", fails("later"))]
    run_jobs(first, steps, lambda step: None, processes=1)
    second = [job("one", fails("never asked")), job("two", lambda on_share: Number(2))]
    heard: list[StepProgress] = []
    results = run_jobs(second, steps, heard.append, processes=1)
    assert results == {"one": Number(1), "two": Number(2)}
    assert ended("one", heard) == ["kept"]


def test_an_interruption_ends_the_processes_too(tmp_path: Path) -> None:
    def slow(on_share: OnShare) -> object:
        (tmp_path / "pid").write_text(str(os.getpid()))
        time.sleep(60)
        return Number(0)

    def interrupt(step: StepProgress) -> None:
        if (tmp_path / "pid").exists() and (tmp_path / "pid").read_text():
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_jobs([job("slow", slow)], Steps(tmp_path), interrupt)
    child = int((tmp_path / "pid").read_text())
    with pytest.raises(ProcessLookupError):
        os.kill(child, 0)


# A step is known for the same inputs only, and damage means that it is done again.


RESULT = Spread(mean=0.5, deviation=0.1, low=0.4, high=0.6)


def test_what_was_kept_is_known_for_the_same_inputs(tmp_path: Path) -> None:
    steps = Steps(tmp_path / "steps")
    assert steps.known("one", {"a": 1}, Spread) is None
    steps.keep("one", {"a": 1, "b": [2, None]}, RESULT)
    assert steps.known("one", {"b": [2, None], "a": 1}, Spread) == RESULT
    assert steps.known("one", {"a": 2, "b": [2, None]}, Spread) is None
    assert steps.known("other", {"a": 1, "b": [2, None]}, Spread) is None


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"inputs": 1}', '{"inputs": "KEY"}', "null"])
def test_a_damaged_step_is_unknown(tmp_path: Path, damage: str) -> None:
    steps = Steps(tmp_path)
    steps.path("one").write_text(damage.replace("KEY", inputs_key({})))
    assert steps.known("one", {}, Spread) is None
