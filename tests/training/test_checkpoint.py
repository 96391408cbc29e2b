"""Checkpoints: what is saved is what is restored, and a bad one is never used."""

from __future__ import annotations

import shutil

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from elmo.bilm.config import BiLMConfig
from elmo.bilm.lstm import LSTMState
from elmo.bilm.model import BiLM, BiLMState
from elmo.checkpoint import model_tensors
from elmo.pretrain.checkpoints import (
    KEPT,
    newest_checkpoint,
    restore,
    save_checkpoint,
)
from elmo.pretrain.config import TrainingConfig
from elmo.pretrain.optimizer import build_optimizer
from elmo.pretrain.optimizer_state import optimizer_tensors
from elmo.pretrain.position import Position
from elmo.text.batches import sentence_batch


def trained(vocabulary, name: str, seed: int):
    """A model and an optimizer after two steps."""
    torch.manual_seed(seed)
    model = BiLM(BiLMConfig(word_dim=4, hidden=4), vocabulary)
    optimizer = build_optimizer(model, TrainingConfig(optimizer=name))
    for _ in range(2):
        optimizer.zero_grad()
        model(sentence_batch([["the", "cat"], ["a"]], vocabulary, spelled=False)).mean.backward()
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
