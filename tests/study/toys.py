"""A study small enough to be run in seconds: two classes of invented sentences."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from elmo.bilm.config import BiLMConfig, SoftmaxConfig
from elmo.classify.data import LabelledTexts, development_split
from elmo.study.cells import Study
from elmo.study.config import QUICK, StudyConfig
from elmo.study.data import LabelledParts, StudyData
from elmo.study.runner import run_study
from elmo.training.config import PretrainConfig, TrainingConfig, VocabularyConfig

TOPICS = {
    "money": ("bank", "loan", "shares", "profit", "market", "price"),
    "river": ("bank", "water", "boat", "fish", "stream", "bridge"),
}
COMMON = ("the", "a", "was", "near", "in", "and", "of", "with", "today", "old")
TINY = StudyConfig(
    seeds=(0, 1),
    windows=(2,),
    static_dim=4,
    task_dim=4,
    epochs=1,
    development_share=0.2,
    candidates=2,
    analysis_rows=24,
    analysis_steps=2,
    fine_tune_epochs=1,
    samples=(4,),
    draws=2,
    sweeps=(),
    bilm_texts=40,
    words=("bank",),
)
TINY_BILM = PretrainConfig(
    vocabulary=VocabularyConfig(min_count=1, held_out_share=0.1),
    model=BiLMConfig(word_dim=8, hidden=8, softmax=SoftmaxConfig(loss="full")),
    training=TrainingConfig(epochs=1),
)
assert QUICK != TINY


def toy_texts(count: int, seed: int) -> LabelledTexts:
    draw = random.Random(seed)
    labels = [draw.choice(sorted(TOPICS)) for _ in range(count - 4)] + ["money", "river"] * 2
    texts = [
        " ".join(draw.choices(TOPICS[label], k=3) + draw.choices(COMMON, k=4)) for label in labels
    ]
    places = [f"'toy', row {number}" for number in range(count)]
    return LabelledTexts(texts, labels, places)


def toy_parts() -> LabelledParts:
    return LabelledParts("toy", toy_texts(80, 0), toy_texts(30, 1))


def toy_data() -> StudyData:
    parts = toy_parts()
    texts = (*parts.train.texts, *parts.test.texts)
    given = [*(parts.train.labels or ()), *(parts.test.labels or ())]
    classes = np.array([sorted(TOPICS).index(label) for label in given])
    return StudyData(
        name="toy",
        texts=texts,
        words=[text.split() for text in texts],
        classes=classes,
        labels=tuple(sorted(TOPICS)),
        train_count=80,
        split=development_split(classes[:80], 0.2, 0),
    )


def toy_study(folder: Path, **changes: Any) -> Study:
    return Study(config=replace(TINY, **changes), data=toy_data(), folder=folder)


def run_toy(out: Path, **changes: Any) -> Any:
    """Run a whole study; `changes` are those of its settings, or arguments of `run_study`."""
    names = ("model", "pretraining", "fresh", "on_progress", "shows_texts", "title")
    arguments: dict[str, Any] = {"pretraining": TINY_BILM, "preset": "quick", "command": "elmo"}
    arguments |= {name: changes.pop(name) for name in names if name in changes}
    return run_study(toy_parts(), out, replace(TINY, **changes), **arguments)
