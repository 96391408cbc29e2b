"""Cells run side by side; one that fails or dies takes no other with it."""

from __future__ import annotations

import errno
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.study.toys import toy_study

from elmo.errors import UserError
from elmo.study import pool
from elmo.study.cells import Study
from elmo.study.pool import run_cells
from elmo.study.rows import Cell, Embedding

needs_fork = pytest.mark.skipif(sys.platform != "linux", reason="cells have no processes here")


class Toy(Study):
    """A study whose cells do what their names say."""

    def compute(self, cell: Cell, on_fraction: Any = None) -> Embedding:
        if cell.name == "mistake":
            raise UserError("too few rows")
        if cell.name == "broken":
            raise ZeroDivisionError("no such number")
        if cell.name == "dead":
            os.kill(os.getpid(), signal.SIGKILL)
        if cell.name == "slow":
            (self.folder / "pid").write_text(str(os.getpid()))
            time.sleep(60)
        on_fraction(0.5)
        path = self.vectors_path(cell.embedding)
        path.parent.mkdir(exist_ok=True)
        path.touch()
        return Embedding(key=cell.name, parameters=torch.get_num_threads())


def toy_cells(*names: str) -> list[Cell]:
    return [Cell(name=name, row=name, kind="vectors", embedding=name) for name in names]


def new_toy(folder: Path) -> Toy:
    study = toy_study(folder)
    return Toy(config=study.config, data=study.data, folder=folder)


@needs_fork
def test_every_result_is_there_whatever_else_fails(tmp_path: Path) -> None:
    study, told = new_toy(tmp_path), list[tuple[str, str]]()

    def tell(cell: Cell, state: str, fraction: float = 0.0, note: str = "") -> None:
        told.append((cell.name, state))

    cells = toy_cells("good", "mistake", "dead", "broken", "other")
    results = run_cells(study, cells, tell, processes=2)
    # One thread each, so that the number of cores changes no result.
    assert results == {name: Embedding(key=name, parameters=1) for name in ("good", "other")}
    messages = {name: message for (_, message), name in study.failures.items()}
    assert messages["mistake"] == "too few rows"
    assert messages["broken"] == "unexpected: ZeroDivisionError: no such number"
    assert "code -9" in messages["dead"]
    names = ("good", "mistake")
    states = {name: [state for one, state in told if one == name] for name in names}
    assert states["good"] == ["waiting", "running", "running", "done"]
    assert states["mistake"] == ["waiting", "running", "failed"]
    told.clear()
    assert run_cells(study, cells[:1], tell) == {"good": results["good"]}
    assert told == [("good", "cached")]


def test_without_fork_cells_are_computed_in_this_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A study is never pickled: its layers may be open files, and too large for a copy."""
    study, told = new_toy(tmp_path), list[tuple[str, str]]()
    on_disk: Any = (tmp_path / "layers").open("wb")
    study.layers["elmo"] = on_disk
    monkeypatch.setattr(sys, "platform", "darwin")

    def tell(cell: Cell, state: str, fraction: float = 0.0, note: str = "") -> None:
        told.append((cell.name, state))

    results = run_cells(study, toy_cells("good", "mistake", "broken", "other"), tell)
    assert {name: result.key for name, result in results.items()} == {
        "good": "good",
        "other": "other",
    }
    messages = {name: message for (_, message), name in study.failures.items()}
    assert messages["mistake"] == "too few rows"
    assert messages["broken"] == "unexpected: ZeroDivisionError: no such number"
    states = {name: [state for cell, state in told if cell == name] for name, _ in told}
    assert states["good"] == ["waiting", "running", "running", "done"]
    assert states["mistake"] == ["waiting", "running", "failed"]
    on_disk.close()


@needs_fork
def test_an_interruption_ends_the_processes_too(tmp_path: Path) -> None:
    def interrupt(cell: Cell, state: str, fraction: float = 0.0, note: str = "") -> None:
        if cell.name == "slow" and state == "running":
            while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
                time.sleep(0.01)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_cells(new_toy(tmp_path), toy_cells("slow"), interrupt)
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


class Refusing:
    """A process that the system starts only when it is asked often enough."""

    def __init__(self, refusals: int, number: int) -> None:
        self.left, self.number = refusals, number

    def start(self) -> None:
        if self.left:
            self.left -= 1
            raise OSError(self.number, os.strerror(self.number))


def test_a_process_that_is_refused_for_a_moment_is_started_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pool, "START_AGAIN", 0.0)
    process: Any = Refusing(3, errno.EAGAIN)
    pool._start(process)
    assert process.left == 0
    process = Refusing(1, errno.EPERM)
    with pytest.raises(PermissionError):
        pool._start(process)
    process = Refusing(10_000, errno.EAGAIN)
    with pytest.raises(UserError, match="The same command resumes"):
        pool._start(process)
