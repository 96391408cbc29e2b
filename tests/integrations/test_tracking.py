"""Reports of training for other programs, and gensim reading our vectors."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np
import pytest
from tests.training.conftest import tiny_config, write_corpus

import elmo
from elmo.errors import UserError
from elmo.integrations.tracking import log_to, log_to_tensorboard, numbers_of
from elmo.training.loop import StepReport


def test_every_number_of_a_training_is_passed_on(tmp_path) -> None:
    logged: list[tuple[int, dict[str, float]]] = []
    corpus = write_corpus(tmp_path / "corpus.txt", documents=40)
    tracked = log_to(lambda values, /, *, step: logged.append((step, values)), prefix="bilm/")
    elmo.pretrain(
        corpus, tmp_path / "run", tiny_config(), cache=tmp_path / "cache", on_report=tracked
    )
    names = {name for _, values in logged for name in values}
    assert {"bilm/train/loss_forward", "bilm/train/learning_rate"} <= names
    assert "bilm/held_out/perplexity" in names
    steps = [step for step, _ in logged]
    assert steps == sorted(steps)
    assert all(isinstance(value, float) for _, values in logged for value in values.values())


def test_tensorboard_gets_the_epochs_of_a_classifier(tmp_path) -> None:
    pytest.importorskip("tensorboard", reason="tensorboard is not installed")
    from elmo.classify.loop import EpochReport, StepReport

    track = log_to_tensorboard(tmp_path)
    track(StepReport(phase="network", done=0.5, loss=1.0, texts_per_second=1.0, seconds_left=1.0))
    report = EpochReport(
        phase="network",
        epoch=1,
        train_loss=0.5,
        development_loss=0.6,
        development_accuracy=0.7,
        development_rows=10,
        mix_weights=None,
        gamma=None,
        seconds=1.0,
    )
    track(report)
    assert numbers_of(report)["train/development_accuracy"] == 0.7
    (events,) = tmp_path.glob("events*")
    assert b"train/development_loss" in events.read_bytes()


def test_tensorboard_gets_the_losses_of_a_pretraining(tmp_path) -> None:
    events = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    corpus, seen = write_corpus(tmp_path / "corpus.txt", documents=40), list[object]()
    elmo.pretrain(
        corpus, tmp_path / "run", tiny_config(), cache=tmp_path / "cache",
        tensorboard=True, on_report=seen.append,
    )  # fmt: skip
    logged = events.EventAccumulator(str(tmp_path / "run" / "tensorboard"))
    logged.Reload()
    assert {"train/loss_backward", "held_out/perplexity_forward"} <= set(logged.Tags()["scalars"])
    steps = [report.step for report in seen if isinstance(report, StepReport)]
    assert [event.step for event in logged.Scalars("train/loss_backward")] == steps


def test_without_tensorboard_one_line_says_what_to_install(tmp_path, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    with pytest.raises(UserError, match=re.escape("pip install 'elmo-embeddings[track]'")):
        log_to_tensorboard(tmp_path)


@pytest.mark.parametrize("suffix", [".txt", ".bin"])
def test_gensim_reads_static_vectors(tmp_path, suffix) -> None:
    gensim = pytest.importorskip("gensim", reason="gensim is not installed")
    vectors = elmo.StaticVectors(("cat", "dog", "雨"), np.eye(3, 4, dtype=np.float32))
    path = tmp_path / f"vectors{suffix}"
    vectors.save(path)
    read = gensim.models.KeyedVectors.load_word2vec_format(path, binary=suffix == ".bin")
    assert read.index_to_key == list(vectors.words)
    np.testing.assert_array_equal(read.vectors, vectors.vectors)
    assert elmo.StaticVectors.load(Path(path)).words == vectors.words
