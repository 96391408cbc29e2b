"""From what a user names to a study: own texts, AG News, or the corpus that elmo generates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from elmo.errors import UserError
from elmo.pretrain.config import PretrainConfig
from elmo.pretrain.presets import DEFAULT, QUICK
from elmo.study.config import STANDARD, StudyConfig
from elmo.study.data import read_parts
from elmo.study.news.news_files import write_news
from elmo.study.request import StudyRequest
from elmo.text.readers.options import ReadOptions

GENERATED = "generated"
TRAIN_ITEMS, TEST_ITEMS = 6_000, 1_500
SMALL = replace(QUICK, training=replace(QUICK.training, epochs=6))
"""For few texts, such as the generated ones."""
SHORTER = replace(DEFAULT, training=replace(DEFAULT.training, epochs=3))
"""Leaves time for the rest of a study within two hours."""


def begin_study(
    sources: Sequence[str],
    out: Path,
    config: StudyConfig = STANDARD,
    *,
    test: Sequence[str] = (),
    model: Path | None = None,
    pretraining: PretrainConfig | None = None,
    read: ReadOptions | None = None,
    label_column: str | None = None,
    preset: str = "standard",
    feature_memory: float | None = None,
    shows_texts: bool = True,
    command: str = "",
) -> StudyRequest:
    """Read the texts, or generate some, and settle what is to be studied."""
    if test and not sources:
        raise UserError("--test came without texts to train on; name those first")
    senses = None
    if sources:
        parts = read_parts(sources, test, config, read, label_column)
    else:
        files = write_news(out / "news", TRAIN_ITEMS, TEST_ITEMS, seed=0)
        parts = read_parts([str(files.train)], [str(files.test)], config)
        parts, senses = replace(parts, name=GENERATED), files.senses
    if pretraining is None:
        pretraining = {"quick": SMALL, "standard": SHORTER}.get(preset, DEFAULT)
    return StudyRequest(
        parts=parts,
        out=out,
        config=config,
        model=model,
        pretraining=pretraining,
        feature_memory=feature_memory,
        shows_texts=shows_texts,
        senses=senses,
        preset=preset,
        command=command,
    )
