"""A study from end to end; killed and gone on with, it finds the same."""

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
from tests.study.toys import toy_request

from elmo.config import to_json
from elmo.errors import UserError
from elmo.study import runner as begin
from elmo.study.config import QUICK
from elmo.study.jobs import StepProgress, StudyRequest
from elmo.study.news import generate_news, read_senses
from elmo.study.results import StudyResults
from elmo.study.runner import SMALL, begin_study, run_study
from elmo.training.checkpoint import locked
from elmo.training.config import DEFAULT

ROWS = ("majority", "tfidf", "svd", "layer-1", "frozen", "trainable", "fine-tuned")
TIMES = ("seconds", "training_seconds", "texts_per_second", "embedding_seconds", "rows_per_second")


def request(out: Path, **changes: Any) -> StudyRequest:
    settings: dict[str, Any] = {"rows": ROWS, "seeds": (0,), "draws": 1} | changes
    return toy_request(out, **settings)


def without_times(value: Any) -> Any:
    if isinstance(value, dict):
        left_out = (*TIMES, "finished")
        return {key: without_times(one) for key, one in value.items() if key not in left_out}
    if isinstance(value, list | tuple):
        return [without_times(one) for one in value]
    return value


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, StudyResults]:
    out = tmp_path_factory.mktemp("study")
    sweeps = ("window=1", "hidden=4")
    return out, run_study(request(out, sweeps=sweeps))


def test_every_part_is_there(undisturbed: tuple[Path, StudyResults]) -> None:
    results = undisturbed[1]
    expected = ["majority", "tfidf", "svd-2", "layer-1", "frozen", "trainable", "fine-tuned"]
    assert [row.name for row in results.rows] == expected
    assert results.failed == ()
    assert all(row.paired is not None for row in results.rows if row.name != "svd-2")
    by_name = {row.name: row for row in results.rows}
    assert by_name["svd-2"].paired is None
    assert by_name["tfidf"].test_accuracy.mean > 0.9
    assert len(by_name["trainable"].candidates) == 3
    assert by_name["layer-1"].seeds[0].layer_weights == (0.0, 1.0, 0.0)
    assert results.draws is not None
    assert len(results.draws.draws) == 1
    assert {point.row for point in results.samples} == {"tfidf", "trainable"}
    assert [(one.setting, one.row) for one in results.sweeps] == [
        ("window", "svd"), ("window", "skipgram"), ("hidden", "trainable"),
    ]  # fmt: skip
    assert "perplexity" in (results.sweeps[2].points[0].note or "")
    assert [one.word for one in results.words] == ["bank"]
    assert len(results.words[0].contexts) == 2
    assert results.language_model is not None
    assert results.language_model.perplexity is not None
    assert results.about.train_rows == 80


def test_a_finished_study_does_nothing_again(undisturbed: tuple[Path, StudyResults]) -> None:
    out, first = undisturbed
    heard: list[StepProgress] = []
    again = run_study(request(out, sweeps=("window=1", "hidden=4")), heard.append)
    assert without_times(to_json(again)) == without_times(to_json(first))
    steps = {
        one.name: one.state
        for one in heard
        if one.name.startswith(("bilm", "row", "tuning", "vec"))
    }
    assert set(steps.values()) == {"kept"}


def test_a_killed_study_goes_on_and_finds_the_same(
    undisturbed: tuple[Path, StudyResults], tmp_path: Path
) -> None:
    wanted = request(tmp_path, sweeps=("window=1", "hidden=4"))
    steps = tmp_path / "steps"
    for least in (4, 16):
        child = multiprocessing.get_context("spawn").Process(target=run_study, args=(wanted,))
        child.start()
        while child.is_alive() and len(list(steps.glob("*.json"))) < least:
            time.sleep(0.02)
        assert child.pid is not None
        os.kill(child.pid, signal.SIGKILL)
        child.join()
        assert child.exitcode == -signal.SIGKILL
        _wait_for_the_lock(tmp_path)
    found = without_times(to_json(run_study(wanted)))
    assert found == without_times(to_json(undisturbed[1]))


def _wait_for_the_lock(folder: Path) -> None:
    """Steps of a killed study end by themselves, and let its lock go."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        with suppress(UserError), locked(folder):
            return
        time.sleep(0.05)
    raise AssertionError("a killed study has left processes behind")


def test_a_row_that_fails_stops_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*given: Any) -> None:
        raise UserError("no vectors today")

    monkeypatch.setattr("elmo.study.rows.make_vectors", refuse)
    results = run_study(request(tmp_path, rows=("tfidf", "svd", "own"), samples=()))
    assert [row.name for row in results.rows] == ["tfidf", "own"]
    assert [(one.name, one.message) for one in results.failed] == [("svd-2", "no vectors today")]
    assert results.language_model is None


def test_a_sweep_that_fails_is_told_of(tmp_path: Path) -> None:
    """So wide a window finds no two words of the toy that belong together."""
    wanted = request(tmp_path, rows=("majority",), sweeps=("window=3",))
    results = run_study(wanted)
    assert [one.name for one in results.failed] == ["svd-3"]
    assert "than by chance" in results.failed[0].message
    assert [(one.setting, one.row) for one in results.sweeps] == [("window", "skipgram")]


def test_another_biLM_in_the_same_folder_is_refused(undisturbed: tuple[Path, StudyResults]) -> None:
    wanted = request(undisturbed[0])
    other = replace(wanted.pretraining.model, hidden=16, word_dim=16)
    with pytest.raises(UserError, match="other settings"):
        run_study(replace(wanted, pretraining=replace(wanted.pretraining, model=other)))


# A study of generated texts, or of those that were named.


def test_without_texts_they_are_generated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(begin, "TRAIN_ITEMS", 40)
    monkeypatch.setattr(begin, "TEST_ITEMS", 12)
    request = begin_study([], tmp_path, QUICK, preset="quick")
    assert request.parts.name == "generated"
    assert request.parts.train.texts == [item.text for item in generate_news(40, 0)]
    tested = generate_news(12, 0, part="test")
    assert request.parts.test.labels == [item.label for item in tested]
    assert request.senses is not None
    assert len(read_senses(request.senses)) == sum(len(item.senses) for item in tested)
    assert request.pretraining == SMALL


def test_named_texts_are_read_and_studied_with_the_default_model(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("text,label\n" + "\n".join(f"text {n},{'xy'[n % 2]}" for n in range(20)))
    request = begin_study([str(path)], tmp_path / "out", preset="standard")
    assert request.parts.name == str(path)
    assert request.senses is None
    assert request.pretraining.model == DEFAULT.model
    assert request.pretraining.training.epochs < DEFAULT.training.epochs
    assert not (tmp_path / "out").exists()
    full = begin_study([str(path)], tmp_path / "out", preset="full")
    assert full.pretraining == DEFAULT


def test_texts_to_test_on_alone_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="came without texts to train on"):
        begin_study([], tmp_path, test=["a.csv"])
