"""Checkpoints: what is saved is what is restored, and a bad one is never used."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from elmo.bilm.config import BiLMConfig
from elmo.bilm.lstm import LSTMState
from elmo.bilm.model import BiLM, BiLMState
from elmo.errors import UserError
from elmo.files import sha256
from elmo.model_folder import model_tensors
from elmo.text.batching import pack_texts
from elmo.training.checkpoint import (
    KEPT,
    Position,
    check_whole,
    locked,
    newest_checkpoint,
    newest_snapshot,
    next_step,
    restore,
    save_checkpoint,
    snapshot_written,
    stopped_by_signals,
)
from elmo.training.config import TrainingConfig
from elmo.training.optim import build_optimizer, optimizer_tensors

# Snapshots are whole, few, and passed over where they are damaged.


def write(folder: Path, text: str, kept: int = 2) -> None:
    with snapshot_written(folder, next_step(folder), kept) as beside:
        (beside / "text").write_text(text)


def load(path: Path) -> str:
    text = (path / "text").read_text()
    if text == "damaged":
        raise UserError(f"{path}: damaged")
    return text


def test_the_newest_are_kept_and_the_newest_is_loaded(tmp_path: Path) -> None:
    assert newest_snapshot(tmp_path, load) is None
    for number in range(12):
        write(tmp_path, str(number))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step-000000011", "step-000000012"]
    assert newest_snapshot(tmp_path, load) == "11"


def test_what_fails_on_the_way_leaves_what_was_there(tmp_path: Path) -> None:
    write(tmp_path, "whole", kept=1)

    def fail() -> None:
        with snapshot_written(tmp_path, next_step(tmp_path), kept=1) as beside:
            (beside / "text").write_text("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert [path.name for path in tmp_path.iterdir()] == ["step-000000001"]
    assert newest_snapshot(tmp_path, load) == "whole"


def test_a_damaged_one_is_named_passed_over_and_gone_with_the_next(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write(tmp_path, "sound")
    write(tmp_path, "damaged")
    assert newest_snapshot(tmp_path, load) == "sound"
    assert "step-000000002: damaged" in caplog.text
    write(tmp_path, "new", kept=1)
    assert [load(path) for path in tmp_path.iterdir()] == ["new"]


def test_a_file_that_changed_is_told_of(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("as written")
    checksum = sha256(path)
    check_whole(path, checksum)
    path.write_text("as writtem")
    with pytest.raises(UserError, match="checksum"):
        check_whole(path, checksum)
    path.unlink()
    with pytest.raises(UserError, match="checksum"):
        check_whole(path, checksum)


# Where a run stands, worked out by hand.


def test_batches_and_epochs_are_counted():
    position = Position().after_batch(10).after_batch(7)
    assert (position.step, position.batch, position.targets) == (2, 2, 17)
    later = position.after_epoch(TrainingConfig(epochs=2)).after_batch(1)
    assert (later.step, later.epoch, later.batch, later.finished) == (3, 1, 1, False)
    assert later.after_epoch(TrainingConfig(epochs=2)).finished


def test_the_best_evaluation_is_remembered():
    position = Position()
    for step, perplexity in enumerate([9.0, 5.0, 6.0, 7.0], start=1):
        position = position.after_batch(1).after_evaluation(perplexity)
        assert position.step == step
    assert (position.best_perplexity, position.best_step) == (5.0, 2)
    assert (position.evaluations, position.worse_evaluations) == (4, 2)
    assert position.has_lost_patience(2)
    assert not position.has_lost_patience(3)
    assert not position.has_lost_patience(None)


def test_what_a_frozen_model_reached_is_remembered():
    position = Position().after_evaluation(9.0).after_evaluation(8.0, ends_freeze=True)
    later = position.after_batch(1).after_evaluation(5.0)
    assert (later.frozen_perplexity, later.best_perplexity, later.evaluations) == (8.0, 5.0, 3)


def test_an_equal_evaluation_is_no_better_one():
    position = Position().after_evaluation(5.0).after_evaluation(5.0)
    assert position.worse_evaluations == 1


def test_patience_ends_the_run_at_the_end_of_the_epoch():
    position = Position().after_evaluation(5.0).after_evaluation(6.0)
    assert position.after_epoch(TrainingConfig(epochs=99, patience=1)).finished


def trained(vocabulary, name: str, seed: int):
    """A model and an optimizer after two steps."""
    torch.manual_seed(seed)
    model = BiLM(BiLMConfig(word_dim=4, hidden=4), vocabulary)
    optimizer = build_optimizer(model, TrainingConfig(optimizer=name))
    for _ in range(2):
        optimizer.zero_grad()
        model.loss(pack_texts([["the", "cat"], ["a"]], vocabulary, spelled=False)).mean.backward()
        optimizer.step()
    return model, optimizer


def some_state() -> BiLMState:
    layers = [LSTMState(torch.randn(2, 4), torch.randn(2, 4)) for _ in range(4)]
    return BiLMState(tuple(layers[:2]), tuple(layers[2:]))


@pytest.mark.parametrize("name", ["adamw", "adagrad", "sgd"])
def test_what_is_saved_is_what_is_restored(vocabulary, tmp_path, name):
    model, optimizer = trained(vocabulary, name, seed=0)
    state = some_state()
    position = Position(step=7, epoch=1, batch=3, targets=99, best_perplexity=4.5, best_step=5)
    save_checkpoint(tmp_path, model, optimizer, state, position)
    other_model, other_optimizer = trained(vocabulary, name, seed=1)
    checkpoint = newest_checkpoint(tmp_path)
    restore(other_model, other_optimizer, checkpoint)
    assert checkpoint.position == position
    for mine, theirs in (
        (model_tensors(model), model_tensors(other_model)),
        (optimizer_tensors(optimizer), optimizer_tensors(other_optimizer)),
    ):
        assert mine.keys() == theirs.keys()
        assert mine
        assert all(torch.equal(mine[key], theirs[key]) for key in mine)
    for one, other in zip(state, checkpoint.state, strict=True):
        for before, after in zip(one, other, strict=True):
            assert torch.equal(before.output, after.output)
            assert torch.equal(before.cell, after.cell)


def test_only_the_newest_few_are_kept(vocabulary, tmp_path):
    model, optimizer = trained(vocabulary, "sgd", seed=0)
    for step in range(5):
        save_checkpoint(tmp_path, model, optimizer, None, Position(step=step))
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == [f"step-{step:09d}" for step in range(5)][-KEPT:]
    assert newest_checkpoint(tmp_path).state is None


@given(data=st.data())
def test_any_damage_sends_a_run_back_to_the_checkpoint_before(data, tmp_path_factory, vocabulary):
    folder = tmp_path_factory.mktemp("run")
    model, optimizer = trained(vocabulary, "adamw", seed=0)
    for step in (1, 2):
        save_checkpoint(folder, model, optimizer, None, Position(step=step))
    newest = folder / "step-000000002"
    path = newest / data.draw(st.sampled_from(["model.safetensors", "training.safetensors"]))
    content = bytearray(path.read_bytes())
    if data.draw(st.booleans()):
        content = content[: data.draw(st.integers(0, len(content) - 1))]
    else:
        content[data.draw(st.integers(0, len(content) - 1))] ^= data.draw(st.integers(1, 255))
    path.write_bytes(content)
    assert newest_checkpoint(folder).position.step == 1
    shutil.rmtree(folder)


@pytest.mark.parametrize("content", ["", "{}", "[]", "null", '{"position": 3, "sha256": []}'])
def test_a_damaged_progress_file_is_passed_over(vocabulary, tmp_path, content):
    model, optimizer = trained(vocabulary, "sgd", seed=0)
    save_checkpoint(tmp_path, model, optimizer, None, Position(step=1))
    (tmp_path / "step-000000001" / "progress.json").write_text(content)
    assert newest_checkpoint(tmp_path) is None


def test_no_checkpoint_is_no_error(tmp_path):
    assert newest_checkpoint(tmp_path / "nothing") is None


# Signals end a run after the current step; a lock keeps others out.


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_is_noted_and_the_handlers_come_back(number):
    before = signal.getsignal(number)
    with stopped_by_signals() as stop:
        assert not stop()
        os.kill(os.getpid(), number)
        assert stop()
    assert signal.getsignal(number) is before


def test_a_second_ctrl_c_stops_at_once():
    with stopped_by_signals() as stop:
        os.kill(os.getpid(), signal.SIGINT)
        assert stop()
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)


def test_other_threads_leave_the_signals_alone():
    found: list[bool] = []

    def run() -> None:
        with stopped_by_signals() as stop:
            found.append(stop())

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert found == [False]


def test_the_lock_goes_with_the_process_that_holds_it(tmp_path):
    script = (
        "import sys; from pathlib import Path; from elmo.training.checkpoint import locked\n"
        "with locked(Path(sys.argv[1])):\n    print('held', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as holder:
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(UserError, match="another process"), locked(tmp_path):
            pass
        holder.kill()
        holder.wait()
    with locked(tmp_path):
        pass
