"""One tiny model, trained once, that all commands try themselves on."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from elmo.bilm.config import BiLMConfig, SoftmaxConfig
from elmo.text.config import Batching
from elmo.training.config import PretrainConfig, TrainingConfig, VocabularyConfig
from elmo.training.pretrain import pretrain

SUBJECTS = ("the cat", "the dog", "a bird", "my naïve friend")
VERBS = ("sat on", "looked at", "ran to")
OBJECTS = ("the mat .", "a tree .", "the [old] house .")


@pytest.fixture(autouse=True, scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Prepared corpora go to a folder of these tests."""
    before = os.environ.get("ELMO_CACHE")
    folder = tmp_path_factory.mktemp("cache")
    os.environ["ELMO_CACHE"] = str(folder)
    yield folder
    del os.environ["ELMO_CACHE"]
    if before is not None:
        os.environ["ELMO_CACHE"] = before


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sentences of a subject, a verb and an object, and a number that makes each its own."""
    rng = np.random.default_rng(0)
    path = tmp_path_factory.mktemp("text") / "corpus.txt"
    lines = [
        " ".join(
            (str(rng.choice(SUBJECTS)), str(rng.choice(VERBS)), str(rng.choice(OBJECTS)), str(n))
        )
        for n in range(400)
    ]
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory, cache: Path, corpus: Path) -> Path:
    """A trained model folder."""
    config = PretrainConfig(
        model=BiLMConfig(word_dim=12, hidden=12, softmax=SoftmaxConfig(loss="full")),
        vocabulary=VocabularyConfig(held_out_share=0.2),
        batching=Batching(window=16, batch_tokens=128),
        training=TrainingConfig(epochs=6, learning_rate=0.02, precision="fp32"),
    )
    folder = tmp_path_factory.mktemp("models") / "tiny"
    pretrain(str(corpus), folder, config, command="elmo pretrain corpus.txt --out tiny")
    return folder
