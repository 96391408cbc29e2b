"""The seconds of all sessions add up, those of a failed one too."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from pathlib import Path

import pytest

from elmo.study.progress import StepProgress, nobody
from elmo.study.timed import SECONDS, timed


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
