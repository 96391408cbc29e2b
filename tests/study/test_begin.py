"""A study of generated texts, or of those that were named."""

from __future__ import annotations

from pathlib import Path

import pytest

from elmo.errors import UserError
from elmo.pretrain.presets import DEFAULT
from elmo.study import begin
from elmo.study.begin import SMALL, begin_study
from elmo.study.config import QUICK
from elmo.study.news.generate import generate_news
from elmo.study.news.news_files import read_senses


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
