"""A study has every part, finds the same after kill -9, and goes on where single cells fail."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from contextlib import suppress
from dataclasses import replace
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import binomtest
from tests.study.toys import TINY_BILM, TOPICS, run_toy, toy_parts, toy_study

from elmo.errors import UserError
from elmo.files import locked_folder, read_json
from elmo.language_model import weights_checksum
from elmo.study.cells import Study
from elmo.study.data import LabelledParts
from elmo.study.pool import CellProgress
from elmo.study.rows import Cell
from elmo.study.runner import FINISHED, PRETRAINING, SECONDS, _pretrained
from elmo.training.config import DEFAULT

ROWS = ("majority", "tfidf", "task", "svd", "distilled", "frozen", "trainable", "fine-tuned")
TIMES = ("seconds", "training_seconds", "texts_per_second", "embedding_seconds", "rows_per_second")
WHOLE: dict[str, Any] = {
    "rows": ROWS, "seeds": (0,), "draws": 1, "sweeps": ("window=1", "hidden=4", "mix-pull=1"),
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
    assert [*by_name] == ["majority", "tfidf", "task", "svd-2", *ROWS[4:]]
    assert results["failed"] == []
    alone = {name: row["alone"] for name, row in by_name.items() if row["alone"]}
    beside = {name: row["beside"] for name, row in by_name.items() if row["beside"]}
    assert by_name.keys() - alone.keys() == {"task"}
    assert [*beside] == ["task", "svd-2", "distilled", "frozen", "trainable"]
    for column in (alone, beside):
        assert {name for name, row in column.items() if row["compared"] is None} == {"svd-2"}
    assert alone["tfidf"]["test_accuracy"]["mean"] > 0.9
    assert alone["tfidf"]["seeds"][0]["train_rows"] == 80
    assert alone["trainable"]["seeds"][0]["train_rows"] == 64
    # Sixteen development rows choose nothing, and the report says so.
    assert alone["trainable"]["candidates"] == []
    few, little = results["about"]["notes"]
    assert "16 development rows" in few
    assert "--model default" in little
    assert len(results["draws"]["draws"]) == 1
    assert {point["row"] for point in results["samples"]} == {"tfidf", "trainable"}
    assert [(one["setting"], one["row"]) for one in results["sweeps"]] == [
        ("window", "svd"), ("window", "skipgram"), ("hidden", "trainable"),
        ("mix-pull", "trainable"),
    ]  # fmt: skip
    assert "perplexity" in results["sweeps"][2]["points"][0]["note"]
    assert [word["word"] for word in results["words"]] == ["bank"]
    assert len(results["words"][0]["contexts"]) == 2
    assert results["language_model"]["metrics"]["texts"] == 30
    assert results["language_model"]["confusions"]
    assert len(results["language_model"]["history"]) == 1
    assert results["about"]["train_rows"] == 80
    assert results["about"]["detectable"] > 0
    # All cells are told of when the study starts, with the work that they turn out to be.
    waiting = {one.name: one.work for one in told if one.state == "waiting"}
    first = next(idx for idx, one in enumerate(told) if one.state == "running")
    planned = {one.name: one.work for one in told[:first]}
    cells = {name: amount for name, amount in waiting.items() if not name.startswith("reading-")}
    assert cells.items() <= planned.items()
    assert {one.name for one in told if one.state == "done"} >= cells.keys()
    check_comparison(undisturbed[0], results)


def check_comparison(out: Path, results: Any) -> None:
    """The stored test accuracy and p-value, from the predictions that the cells hold."""
    predictions = {
        name: np.array(
            read_json(out / "cells" / f"alone-{name}-seed0.json")["result"]["predictions"]
        )
        for name in ("svd-2", "trainable")
    }
    test = toy_parts().test
    gold = np.array([sorted(TOPICS).index(label) for label in test.labels or ()])
    row = next(row for row in results["rows"] if row["name"] == "trainable")["alone"]
    right = {name: np.array(some) == gold for name, some in predictions.items()}
    assert row["test_accuracy"]["mean"] == pytest.approx(right["trainable"].mean())
    only = [(right[a] & ~right[b]).sum() for a, b in permutations(right)]
    p = binomtest(int(min(only)), int(sum(only))).pvalue if sum(only) else 1.0
    assert row["compared"]["p"] == pytest.approx(p)


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
    assert [one.name for one in told if one.state == "done"] == ["alone-majority"]
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
        with suppress(UserError), locked_folder(folder):
            return
        time.sleep(0.05)
    raise AssertionError("a killed study has left processes behind")


def test_a_row_that_fails_stops_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: Any) -> None:
        raise UserError("no vectors today")

    monkeypatch.setattr("elmo.study.cells.Study._make_vectors", refuse)
    results = run_toy(tmp_path, rows=("tfidf", "svd", "task"), seeds=(0,), samples=())
    assert [row["name"] for row in results["rows"]] == ["tfidf", "task"]
    failed = [(one["name"], one["title"], one["message"]) for one in results["failed"]]
    assert failed == [("vectors-svd-2", "SVD, window 2", "no vectors today")]
    assert results["language_model"] is None


def test_a_seed_that_fails_leaves_the_others_their_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compute = Study.compute

    def fail_first(study: Study, cell: Cell, on_fraction: Any = None) -> Any:
        if cell.name == "alone-svd-2-seed3":
            raise UserError("no luck")
        return compute(study, cell, on_fraction)

    monkeypatch.setattr(Study, "compute", fail_first)
    results = run_toy(tmp_path, rows=("majority", "svd"), seeds=(3, 7), samples=())
    seeds = {
        row["name"]: [seed["seed"] for seed in row["alone"]["seeds"]] for row in results["rows"]
    }
    assert seeds == {"majority": [3], "svd-2": [7]}


def test_a_sweep_that_fails_is_told_of(tmp_path: Path) -> None:
    """SVD cannot give more numbers than the toy has words; skip-gram can."""
    results = run_toy(tmp_path, rows=("majority",), sweeps=("dim=50",))
    assert [one["name"] for one in results["failed"]] == ["vectors-svd-2-dim-50"]
    assert "vectors of 50 numbers need" in results["failed"][0]["message"]
    assert [(one["setting"], one["row"]) for one in results["sweeps"]] == [("dim", "skipgram")]


def test_another_biLM_in_the_same_folder_is_refused(tmp_path: Path) -> None:
    changes: dict[str, Any] = {"rows": ("layer-0",), "samples": (), "draws": 0, "words": ()}
    run_toy(tmp_path, **changes)
    other = replace(TINY_BILM.model, hidden=16, word_dim=16)
    with pytest.raises(UserError, match="other settings"):
        run_toy(tmp_path, **changes, pretraining=replace(TINY_BILM, model=other))
    assert PRETRAINING["full"] == DEFAULT
    assert PRETRAINING["standard"].training.epochs < DEFAULT.training.epochs


@pytest.mark.parametrize("is_finished", [True, False])
def test_a_biLM_of_other_texts_is_trained_anew(
    is_finished: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Its texts may be the test texts of this study."""
    parts, told = toy_parts(), list[tuple[str, str]]()
    swapped = replace(parts, train=parts.test, test=parts.train)
    study = toy_study(tmp_path / "a")
    study.folder.mkdir()

    def train(some: LabelledParts) -> str:
        told.clear()
        tell: Any = lambda cell, state, fraction=0.0: told.append((cell.name, state))  # noqa: E731
        return weights_checksum(_pretrained(study, some, "bilm", TINY_BILM, tell).folder)

    first = train(parts)
    assert train(parts) == first
    assert told == [("bilm", "cached")]
    if not is_finished:
        (study.folder / "bilm" / FINISHED).unlink()
    other = train(swapped)
    assert "other texts" in caplog.text
    assert told[-1] == ("bilm", "done")
    study = toy_study(tmp_path / "b")
    study.folder.mkdir()
    assert train(swapped) == other != first
    # Of unknown texts.
    (study.folder / "bilm.text.jsonl").unlink()
    train(swapped)
    assert told[-1] == ("bilm", "done")


def test_files_are_named_without_their_folders(tmp_path: Path) -> None:
    study = toy_study(tmp_path / "small")
    study.folder.mkdir()
    model = _pretrained(study, toy_parts(), "bilm", TINY_BILM, lambda *_, **__: None).folder
    vectors = tmp_path / "mine.txt"
    vectors.write_text("bank 1 0 0 1\nwater 0 1 1 0\n", encoding="utf-8")
    results = run_toy(
        tmp_path / "out", rows=("layer-0", "file-mine"), model=str(model), seeds=(0,),
        word_vectors=(str(vectors),), samples=(), draws=0, words=(), task_dim=0,
    )  # fmt: skip
    assert results["failed"] == []
    assert results["language_model"]["source"] == "given: bilm"
    settings = {one["name"]: one["value"] for one in results["about"]["settings"]}
    assert settings["word_vectors"] == "mine.txt"


def test_damaged_seconds_count_as_nothing(tmp_path: Path) -> None:
    run_toy(tmp_path, rows=("majority",))
    (tmp_path / SECONDS).write_text("{")
    assert run_toy(tmp_path, rows=("majority",))["about"]["seconds"] < 60
