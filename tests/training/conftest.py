"""A corpus of a tiny language and settings that train on it in a second."""

from __future__ import annotations

import random
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from elmo.bilm.config import BiLMConfig, SoftmaxConfig
from elmo.text.config import Batching
from elmo.training.config import PretrainConfig, TrainingConfig, VocabularyConfig


def write_corpus(path: Path, documents: int = 120, seed: int = 0) -> Path:
    """Sentences of a small grammar, with one document far longer than a window."""
    draw = random.Random(seed)
    nouns, verbs = ["cat", "dog", "bird", "fox"], ["sees", "hears", "likes"]
    lines = [
        " ".join(
            f"the {draw.choice(nouns)} {draw.choice(verbs)} the {draw.choice(nouns)} ."
            for _ in range(draw.randint(1, 4))
        )
        for _ in range(documents)
    ]
    lines.append("the cat sees the dog . " * 40)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.fixture
def corpus_file(tmp_path: Path) -> Path:
    return write_corpus(tmp_path / "corpus.txt")


@pytest.fixture
def around(tmp_path: Path) -> dict[str, Path]:
    """Keyword arguments of `pretrain` that keep its cache out of the user's."""
    return {"cache": tmp_path / "cache"}


@pytest.fixture
def tiny() -> PretrainConfig:
    return tiny_config()


def tiny_config(**training: object) -> PretrainConfig:
    settings = {"epochs": 2, "evaluations_per_epoch": 2, "precision": "fp32", **training}
    return PretrainConfig(
        vocabulary=VocabularyConfig(min_count=1, held_out_share=0.1),
        model=BiLMConfig(word_dim=8, hidden=8, dropout=0.1, softmax=SoftmaxConfig(samples=6)),
        batching=Batching(batch_tokens=128, window=32),
        training=TrainingConfig(**settings),  # type: ignore[arg-type]
    )


def stop_after(steps: int) -> Callable[[], AbstractContextManager[Callable[[], bool]]]:
    """A stand-in for `stop_requested` that asks a run to stop after its first `steps` steps."""

    @contextmanager
    def stop_requested() -> Generator[Callable[[], bool]]:
        asked = 0

        def stop() -> bool:
            nonlocal asked
            asked += 1
            return asked >= steps

        yield stop

    return stop_requested
