"""Steps side by side: kept as soon as they are done, and one that fails stops no other."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

from elmo.errors import UserError
from elmo.study.jobs import Failure, Job, OnShare, run_jobs
from elmo.study.progress import StepProgress
from elmo.study.steps import Steps


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
