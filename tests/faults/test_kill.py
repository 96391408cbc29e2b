"""SIGKILL at random moments: nothing on disk is ever unreadable, and the end is the same."""

from __future__ import annotations

import logging
import os
import random
import shutil
import signal
import time
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest
from tests.faults.conftest import SOAK, final_bytes, started, train
from tests.training.conftest import write_corpus

from elmo import files
from elmo.language_model import LanguageModel
from elmo.model_folder import load_tensors
from elmo.training.loop import load
from elmo.training.pretrain import read_run

KILLS = 200 if SOAK else 20
WRITES = 40 if SOAK else 8
SECONDS = 300


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory) -> Path:
    """A run that nothing has disturbed, in a folder with its text."""
    folder = tmp_path_factory.mktemp("undisturbed")
    write_corpus(folder / "corpus.txt", documents=60)
    process = started(train, folder)
    process.join(SECONDS)
    assert process.exitcode == 0
    return folder


@pytest.fixture
def disturbed(undisturbed, tmp_path) -> Path:
    """The same text in another folder, prepared already."""
    shutil.copytree(undisturbed / "cache", tmp_path / "cache")
    shutil.copy2(undisturbed / "corpus.txt", tmp_path / "corpus.txt")
    return tmp_path


def assert_all_readable(folder: Path, caplog) -> None:
    """Every file that has its name is whole."""
    run = folder / "run"
    with caplog.at_level(logging.WARNING):
        caplog.clear()
        load(run / "checkpoints")
        assert "damaged" not in caplog.text
    for checkpoint in (run / "checkpoints").glob("step-*"):
        assert load_tensors(checkpoint / "model.safetensors")
    if (run / "config.json").exists():
        read_run(run)
    if (run / "model.safetensors").exists():
        LanguageModel.from_pretrained(run)


def step_of(folder: Path) -> int:
    """How far the run has come."""
    names = [path.name for path in (folder / "run" / "checkpoints").glob("step-*")]
    return max((int(name.removeprefix("step-")) for name in names), default=0)


def kill_after(process: BaseProcess, folder: Path, steps: int, pause: float) -> None:
    """Kill a process when the run is so many steps further, and a moment more has passed."""
    goal = step_of(folder) + steps
    end = time.monotonic() + SECONDS
    while process.is_alive() and step_of(folder) < goal and time.monotonic() < end:
        time.sleep(0.001)
    time.sleep(pause)
    process.kill()
    process.join()


def test_kills_at_random_moments_change_nothing(undisturbed, disturbed, caplog):
    total = step_of(undisturbed)
    moments = random.Random(20)
    killed = 0
    for _ in range(KILLS):
        process = started(train, disturbed)
        steps = moments.randint(0, max(1, total // KILLS))
        kill_after(process, disturbed, steps, pause=moments.uniform(0, 0.02))
        killed += process.exitcode == -signal.SIGKILL
        assert_all_readable(disturbed, caplog)
    assert killed > KILLS / 4, "the run was over long before the last kill"
    train(disturbed)
    assert final_bytes(disturbed / "run") == final_bytes(undisturbed / "run")


def train_until_write(folder: Path, number: int) -> None:
    """Train, and die when so many files or folders have been written but not yet named."""
    real = files.sync
    left = number

    def sync(path: Path) -> None:
        nonlocal left
        # Syncing the folder around it comes after the renaming: nothing is left behind by then.
        left -= ".partial" in str(path)
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        real(path)

    files.sync = sync
    train(folder)


def test_a_kill_within_every_part_of_a_write_changes_nothing(undisturbed, disturbed, caplog):
    moments = random.Random(3)
    left_behind = killed = 0
    for number in range(1, WRITES + 1):
        process = started(train_until_write, disturbed, number + moments.randint(0, 40))
        process.join(SECONDS)
        if process.exitcode == 0:
            break  # over before that many writes
        assert process.exitcode == -signal.SIGKILL
        killed += 1
        left_behind += any((disturbed / "run").rglob(".*.partial"))
        assert_all_readable(disturbed, caplog)
    assert killed > WRITES / 4, "the run was over long before the last kill"
    assert left_behind > killed / 2, "the kills did not fall into writes"
    train(disturbed)
    assert final_bytes(disturbed / "run") == final_bytes(undisturbed / "run")
