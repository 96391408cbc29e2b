"""A training that is stopped, anywhere, ends as if it had not been."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.classify.toy import toy_config, toy_model, toy_texts
from torch import nn

from elmo.classify.checkpoints import Origin, kept_beside, unfinished
from elmo.classify.config import ClassifierConfig, FineTuningConfig
from elmo.classify.train import Surroundings, Trained, train
from elmo.contextual.progress import Progress
from elmo.errors import UserError
from elmo.static.vectors import StaticVectors

DATA = toy_texts()
TUNING = FineTuningConfig(fine_tune_epochs=2, unfreeze_epochs=0.5, language_weight=0.1)
CONFIG = replace(
    toy_config(), learning=replace(toy_config().learning, epochs=2, fine_tuning=TUNING)
)
VECTORS = StaticVectors(("cat", "hail"), np.array([[1, 2], [3, 4]], np.float32))
LOOKS = 28
"""So often a training is asked whether it is to stop: after each of six batches and at the end of
each of four epochs."""


def origin(config: ClassifierConfig = CONFIG, texts: str = "a", bilm: str = "b") -> Origin:
    return Origin(config=config, texts=texts, bilm=bilm, word_vectors=None)


def learned(
    out: Path, *, minutes: float = 5.0, on_texts: Callable[[Progress], None] = lambda report: None
) -> Trained:
    with kept_beside(out, origin(), minutes) as checkpoints:
        around = Surroundings(out.parent, on_texts=on_texts, checkpoints=checkpoints)
        return train(toy_model(), DATA, CONFIG, around, VECTORS)


def stopped_at(look: int) -> Callable[[], AbstractContextManager[Callable[[], bool]]]:
    """In place of signals: one comes so many looks after the beginning."""
    looks = 0

    def stop() -> bool:
        nonlocal looks
        looks += 1
        return looks >= look

    @contextmanager
    def watched() -> Generator[Callable[[], bool]]:
        yield stop

    return watched


def stop(out: Path, look: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("elmo.classify.checkpoints.stopped_by_signals", stopped_at(look))
        with pytest.raises(KeyboardInterrupt, match="the same command goes on"):
            learned(out)


def assert_same_weights(one: nn.Module, other: nn.Module) -> None:
    first, second = one.state_dict(), other.state_dict()
    assert first.keys() == second.keys()
    assert all(torch.equal(first[name], second[name]) for name in first)


def assert_same(one: Trained, other: Trained) -> None:
    np.testing.assert_array_equal(one.probabilities, other.probabilities)
    assert_same_weights(one.classifier.network, other.classifier.network)
    assert_same_weights(one.classifier.loaded.model, other.classifier.loaded.model)
    histories = [
        [replace(report, seconds=0.0) for report in trained.history] for trained in (one, other)
    ]
    assert histories[0] == histories[1]


@pytest.fixture(scope="module")
def whole() -> Trained:
    """What a training gives that is neither stopped nor watched."""
    return train(toy_model(), DATA, CONFIG, word_vectors=VECTORS)


@given(looks=st.lists(st.integers(1, LOOKS), min_size=1, max_size=3))
@settings(max_examples=10)
def test_a_training_stopped_anywhere_ends_like_one_that_was_not(
    whole: Trained, tmp_path_factory: pytest.TempPathFactory, looks: list[int]
) -> None:
    out = tmp_path_factory.mktemp("parts") / "out"
    behind = 0
    for look in looks:
        if behind + look <= LOOKS:
            stop(out, look)
            behind += look
    assert_same(learned(out), whole)
    assert not unfinished(out).exists()
    shutil.rmtree(out.parent)


@pytest.mark.parametrize("look", [1, 7, 14, 15, LOOKS])
def test_a_stop_may_fall_on_any_border(whole: Trained, tmp_path: Path, look: int) -> None:
    """The first batch, the end of an epoch, of a phase, of all."""
    stop(tmp_path / "out", look)
    assert_same(learned(tmp_path / "out"), whole)


def test_layers_are_not_read_again_for_a_biLM_that_learns(tmp_path: Path) -> None:
    read: list[Progress] = []
    stop(tmp_path / "out", 13)
    learned(tmp_path / "out", on_texts=read.append)
    assert read
    read.clear()
    stop(tmp_path / "out", 15)
    learned(tmp_path / "out", on_texts=read.append)
    assert not read


def test_a_checkpoint_is_written_when_it_is_time_to(whole: Trained, tmp_path: Path) -> None:
    out, lost = tmp_path / "out", KeyError("power")
    seen: list[str] = []

    def fail(report: object) -> None:
        seen.extend(path.name for path in unfinished(out).glob("step-*"))
        if len(seen) == 9:
            raise lost

    with pytest.raises(KeyError, match="power"), kept_beside(out, origin(), 0.0) as checkpoints:
        train(toy_model(), DATA, CONFIG, Surroundings(tmp_path, fail, checkpoints=checkpoints),
              VECTORS)  # fmt: skip
    assert seen == [f"step-{number:09d}" for number in range(1, 10)]
    again = learned(out)
    assert_same(again, whole)
    assert again.seconds > sum(report.seconds for report in again.history[1:])


def test_a_training_without_a_checkpoint_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(KeyError), kept_beside(tmp_path / "out", origin(), 5.0):
        raise KeyError
    assert not list(tmp_path.iterdir())


def test_a_damaged_checkpoint_is_named_and_the_training_begins_anew(
    whole: Trained, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    stop(tmp_path / "out", 5)
    path = unfinished(tmp_path / "out") / "step-000000001" / "training.safetensors"
    path.write_bytes(path.read_bytes()[:-1])
    assert_same(learned(tmp_path / "out"), whole)
    assert "passing over a damaged checkpoint" in caplog.text


def test_another_training_is_refused_and_what_differs_is_named(tmp_path: Path) -> None:
    out = tmp_path / "out"
    stop(out, 3)
    learning = replace(CONFIG.learning, seed=1, feature_memory=0.5)
    for other, named in (
        (origin(replace(CONFIG, learning=learning), texts="c"), "other seed, texts;"),
        (origin(bilm="c"), "other bilm;"),
        (replace(origin(), version="0"), "other version;"),
    ):
        with pytest.raises(UserError, match=named), kept_beside(out, other, 5.0):
            pass
    assert unfinished(out).exists()


def test_where_layers_are_kept_may_change(tmp_path: Path) -> None:
    out = tmp_path / "out"
    stop(out, 3)
    elsewhere = replace(CONFIG, learning=replace(CONFIG.learning, feature_memory=0.5))
    with kept_beside(out, origin(elsewhere), 5.0) as checkpoints:
        assert checkpoints.phase == "network"


def test_what_a_process_that_died_left_half_written_is_removed(tmp_path: Path) -> None:
    left = [".out.7.partial", ".out.7.deleted.partial", ".out.unfinished.7.deleted.partial"]
    others = [".out.b.7.partial", ".other.7.partial", "out.7.partial"]
    for name in (*left, *others):
        (tmp_path / name).mkdir()
        (tmp_path / name / "weights").touch()
    with kept_beside(tmp_path / "out", origin(), 5.0):
        pass
    assert {path.name for path in tmp_path.iterdir()} == set(others)


def test_two_processes_cannot_make_the_same_folder(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with kept_beside(out, origin(), 5.0):
        with pytest.raises(UserError, match="another process"), kept_beside(out, origin(), 5.0):
            pass
        assert unfinished(out).exists()
