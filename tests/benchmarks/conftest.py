"""Benchmarks are scripts beside the package, not modules of it: put their folder on the path."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from elmo.bilm.config import BiLMConfig, CharacterConfig, SoftmaxConfig
from elmo.text.config import Batching
from elmo.training.config import PretrainConfig, VocabularyConfig

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

TINY = PretrainConfig(
    vocabulary=VocabularyConfig(min_count=1),
    model=BiLMConfig(word_dim=8, hidden=8, softmax=SoftmaxConfig(samples=16)),
    batching=Batching(batch_tokens=512, window=64),
)
TINY_CHARACTERS = PretrainConfig(
    vocabulary=VocabularyConfig(min_count=1),
    model=BiLMConfig(
        input="characters",
        characters=CharacterConfig(char_dim=4, filters=((1, 4), (2, 4))),
        hidden=8,
        softmax=SoftmaxConfig(samples=16, tied=False),
    ),
    batching=Batching(batch_tokens=512, window=64),
)
SMALL_FILES = ("--megabytes", "0.02", "--word-megabytes", "0.02")
TINY_SCALES = {
    "vocabulary": (50, 100),
    "cells": (8, 12),
    "sentence length": (4, 8),
    "batch": (256, 512),
    "threads": (1,),
    "documents": (100, 200),
}


@pytest.fixture(scope="session")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of 400 texts whose words have nothing to do with each other."""
    random = np.random.default_rng(0)
    chances = 1 / np.arange(1, 201)
    rows = (
        random.choice(200, random.integers(5, 15), p=chances / chances.sum()) for _ in range(400)
    )
    path = tmp_path_factory.mktemp("text") / "text.txt"
    path.write_text("\n".join(" ".join(f"w{word}" for word in row.tolist()) for row in rows))
    return path


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cases run in this process, on a machine that nobody looks at, and every step is reported."""
    _hurry(monkeypatch)


@pytest.fixture(scope="session")
def results(text: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with the results of all benchmarks, run on tiny sizes."""
    import growth
    import time_to_quality
    import training
    import using

    folder = tmp_path_factory.mktemp("bench")
    flags = ["--source", str(text), "--folder", str(folder), "--threads", "1", "--anyway"]
    flags += ["--scratch", str(folder)]
    with pytest.MonkeyPatch.context() as patch:
        _hurry(patch)
        for module in (training, time_to_quality, growth):
            patch.setattr(module, "DEFAULT", TINY)
        patch.setattr(training, "CHARACTERS", TINY_CHARACTERS)
        patch.setattr(growth, "SCALES", TINY_SCALES)
        patch.setattr(growth, "WORDS", 60)
        patch.setattr(growth, "TOKENS", 2000)
        patch.setattr(using, "WARM_UP", 2)
        patch.setattr(using, "SENTENCES", 5)
        again = [*flags, "--repeats", "2", "--seconds", "0.01"]
        training.main([*again, "--plain-words", "300"])
        time_to_quality.main([*again, "--plain-seconds", "0.1", "--evaluations", "1"])
        growth.main([*flags, "--repeats", "1", "--seconds", "0.01", "--scales", *TINY_SCALES])
        using.main([*flags, "--repeats", "1", *SMALL_FILES, "--trainings", "0"])
    return folder


def _hurry(patch: pytest.MonkeyPatch) -> None:
    import harness

    patch.setattr(harness, "in_own_process", harness.in_this_process)
    patch.setattr(harness, "cores_busy", lambda: 0.0)
    patch.setattr("elmo.training.loop.SECONDS_BETWEEN_REPORTS", 0.0)
