"""A study has every part, finds the same after kill -9, and goes on where single cells fail."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.study.toys import TINY_BILM, run_toy, toy_study

from elmo.errors import UserError
from elmo.study.rows import Cell, Embedding, Study
from elmo.study.runner import PRETRAINING, SECONDS, CellProgress, run_cells
from elmo.training.checkpoint import locked
from elmo.training.config import DEFAULT

ROWS = ("majority", "tfidf", "svd", "layer-1", "frozen", "trainable", "fine-tuned")
TIMES = ("seconds", "training_seconds", "texts_per_second", "embedding_seconds", "rows_per_second")
WHOLE: dict[str, Any] = {
    "rows": ROWS, "seeds": (0,), "draws": 1, "sweeps": ("window=1", "hidden=4"),
}  # fmt: skip


def without_times(value: Any) -> Any:
    if isinstance(value, dict):
        left_out = (*TIMES, "finished")
        return {key: without_times(one) for key, one in value.items() if key not in left_out}
    if isinstance(value, list | tuple):
        return [without_times(one) for one in value]
    return value


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any, list[CellProgress]]:
    out = tmp_path_factory.mktemp("study")
    told: list[CellProgress] = []
    return out, run_toy(out, **WHOLE, on_progress=told.append), told


def test_every_part_is_there(undisturbed: tuple[Path, Any, list[CellProgress]]) -> None:
    _, results, told = undisturbed
    by_name = {row["name"]: row for row in results["rows"]}
    assert [*by_name] == ["majority", "tfidf", "svd-2", *ROWS[3:]]
    assert results["failed"] == []
    assert {name for name, row in by_name.items() if row["paired"] is None} == {"svd-2"}
    assert by_name["tfidf"]["test_accuracy"]["mean"] > 0.9
    assert len(by_name["trainable"]["candidates"]) == 3
    assert by_name["layer-1"]["seeds"][0]["layer_weights"] == (0.0, 1.0, 0.0)
    assert len(results["draws"]["draws"]) == 1
    assert {point["row"] for point in results["samples"]} == {"tfidf", "trainable"}
    assert [(one["setting"], one["row"]) for one in results["sweeps"]] == [
        ("window", "svd"), ("window", "skipgram"), ("hidden", "trainable"),
    ]  # fmt: skip
    assert "perplexity" in results["sweeps"][2]["points"][0]["note"]
    assert [word["word"] for word in results["words"]] == ["bank"]
    assert len(results["words"][0]["contexts"]) == 2
    assert results["language_model"]["perplexity"] is not None
    assert len(results["language_model"]["history"]) == 1
    assert results["about"]["train_rows"] == 80
    # All cells are told of when the study starts, with the work that they turn out to be.
    waiting = {one.name: one.work for one in told if one.state == "waiting"}
    first = next(idx for idx, one in enumerate(told) if one.state == "running")
    planned = {one.name: one.work for one in told[:first]}
    cells = {name: amount for name, amount in waiting.items() if not name.startswith("reading-")}
    assert cells.items() <= planned.items()
    assert {one.name for one in told if one.state == "done"} >= cells.keys()


def test_a_finished_study_does_nothing_again_until_it_starts_over(
    undisturbed: tuple[Path, Any, list[CellProgress]],
) -> None:
    out, first, _ = undisturbed
    told: list[CellProgress] = []
    again = run_toy(out, **WHOLE, on_progress=told.append)
    assert without_times(again) == without_times(first)
    assert again["about"]["seconds"] > first["about"]["seconds"]
    assert {one.name for one in told if one.state == "done"} <= {"words"}
    told.clear()
    fresh = run_toy(out, rows=("majority",), fresh=True, words=(), on_progress=told.append)
    assert [one.name for one in told if one.state == "done"] == ["row-majority"]
    assert fresh["about"]["seconds"] < first["about"]["seconds"]
    assert not (out / "bilm").exists()


def run_whole(out: Path) -> None:
    run_toy(out, **WHOLE)


def test_a_killed_study_resumes_and_finds_the_same(
    undisturbed: tuple[Path, Any, list[CellProgress]], tmp_path: Path
) -> None:
    for least in (4, 16):
        child = multiprocessing.get_context("spawn").Process(target=run_whole, args=(tmp_path,))
        child.start()
        while child.is_alive() and len(list(tmp_path.glob("cells/*.json"))) < least:
            time.sleep(0.02)
        assert child.pid is not None
        os.kill(child.pid, signal.SIGKILL)
        child.join()
        assert child.exitcode == -signal.SIGKILL
        _wait_for_the_lock(tmp_path)
    found = run_toy(tmp_path, **WHOLE)
    assert without_times(found) == without_times(undisturbed[1])


def _wait_for_the_lock(folder: Path) -> None:
    """Cells of a killed study end by themselves, and release its lock."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        with suppress(UserError), locked(folder):
            return
        time.sleep(0.05)
    raise AssertionError("a killed study has left processes behind")


def test_a_row_that_fails_stops_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: Any) -> None:
        raise UserError("no vectors today")

    monkeypatch.setattr("elmo.study.rows.make_vectors", refuse)
    results = run_toy(tmp_path, rows=("tfidf", "svd", "own"), seeds=(0,), samples=())
    assert [row["name"] for row in results["rows"]] == ["tfidf", "own"]
    failed = [(one["name"], one["title"], one["message"]) for one in results["failed"]]
    assert failed == [("svd-2", "SVD, window 2", "no vectors today")]
    assert results["language_model"] is None


def test_a_sweep_that_fails_is_told_of(tmp_path: Path) -> None:
    """So wide a window finds no two words of the toy that belong together."""
    results = run_toy(tmp_path, rows=("majority",), sweeps=("window=3",))
    assert [one["name"] for one in results["failed"]] == ["svd-3"]
    assert "than by chance" in results["failed"][0]["message"]
    assert [(one["setting"], one["row"]) for one in results["sweeps"]] == [("window", "skipgram")]


def test_another_biLM_in_the_same_folder_is_refused(tmp_path: Path) -> None:
    changes: dict[str, Any] = {"rows": ("layer-0",), "samples": (), "draws": 0, "words": ()}
    run_toy(tmp_path, **changes)
    other = replace(TINY_BILM.model, hidden=16, word_dim=16)
    with pytest.raises(UserError, match="other settings"):
        run_toy(tmp_path, **changes, pretraining=replace(TINY_BILM, model=other))
    assert PRETRAINING["full"] == DEFAULT
    assert PRETRAINING["standard"].training.epochs < DEFAULT.training.epochs


def test_damaged_seconds_count_as_nothing(tmp_path: Path) -> None:
    (tmp_path / SECONDS).write_text("{")
    assert run_toy(tmp_path, rows=("majority",))["about"]["seconds"] < 60


# Cells side by side.


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


def test_every_result_is_there_whatever_else_fails(tmp_path: Path) -> None:
    study, told = new_toy(tmp_path), list[CellProgress]()
    cells = toy_cells("good", "mistake", "dead", "broken", "other")
    results = run_cells(study, cells, told.append, processes=2)
    # One thread each, so that the number of cores changes no result.
    assert results == {name: Embedding(key=name, parameters=1) for name in ("good", "other")}
    assert study.failures["mistake"] == "too few rows"
    assert study.failures["broken"] == "unexpected: ZeroDivisionError: no such number"
    assert "code -9" in study.failures["dead"]
    states = {name: [one.state for one in told if one.name == name] for name in ("good", "mistake")}
    assert states["good"] == ["waiting", "running", "running", "done"]
    assert states["mistake"] == ["waiting", "running", "failed"]
    told.clear()
    assert run_cells(study, cells[:1], told.append) == {"good": results["good"]}
    assert [one.state for one in told] == ["cached"]


def test_an_interruption_ends_the_processes_too(tmp_path: Path) -> None:
    def interrupt(progress: CellProgress) -> None:
        if progress.name == "slow" and progress.state == "running":
            while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
                time.sleep(0.01)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_cells(new_toy(tmp_path), toy_cells("slow"), interrupt)
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)
