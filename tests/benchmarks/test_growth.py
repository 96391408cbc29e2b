"""Each scale changes one thing, and all of them are measured."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
from tests.benchmarks.conftest import TINY_SCALES

import growth
from elmo.config import check
from elmo.text.corpus import load_corpus
from harness import read_bench


def flat(settings: dict[str, object], prefix: str = "") -> dict[str, object]:
    found: dict[str, object] = {}
    for name, value in settings.items():
        path = f"{prefix}{name}"
        found |= flat(value, f"{path}.") if isinstance(value, dict) else {path: value}
    return found


@pytest.mark.parametrize(
    ("scale", "changed"),
    [
        ("vocabulary", set()),
        ("cells", {"model.word_dim", "model.hidden"}),
        ("batch", {"batching.batch_tokens"}),
        ("threads", set()),
    ],
)
def test_a_scale_changes_one_thing(scale: str, changed: set[str]):
    base = flat(asdict(growth.settings("", 0)))
    for at in growth.SCALES[scale]:
        check(growth.settings(scale, at))
        other = flat(asdict(growth.settings(scale, at)))
        assert {name for name in base if base[name] != other[name]} <= changed
        assert all(other[name] == at for name in changed)


def test_texts_are_those_of_the_scale(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(growth, "SCALES", TINY_SCALES)
    monkeypatch.setattr(growth, "WORDS", 60)
    monkeypatch.setattr(growth, "TOKENS", 400)
    given = Namespace(scales=["vocabulary", "sentence length"], seconds=1.0, threads=1)
    seen = []
    for case in growth.cases(given, tmp_path):
        corpus = load_corpus(case.arguments[1])
        (shard,) = corpus.train
        seen.append((len(corpus.words), int(np.diff(shard.ends, prepend=0).max()) - 2))
    assert seen == [(50, 40), (100, 40), (60, 4), (60, 8)]


def test_threads_are_those_of_the_scale(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(growth, "WORDS", 60)
    monkeypatch.setattr(growth, "TOKENS", 100)
    given = Namespace(scales=["threads", "cells"], seconds=1.0, threads=5)
    threads = [case.arguments[3] for case in growth.cases(given, tmp_path)]
    assert threads == [1, 2, 5, 5, 5, 5]


def test_all_scales_are_measured(results: Path):
    found = read_bench(results / "growth.json")
    for scale, points in TINY_SCALES.items():
        figures = found.scale(scale)
        assert [one.at for one in figures] == list(points)
        assert {one.unit for one in figures} == {"s" if scale == "documents" else "tokens/s"}
        assert all(one.median > 0 for one in figures)


def test_a_text_that_is_too_short_is_not_taken_for_a_longer_one(text: Path, tmp_path: Path):
    lines = growth.write_documents(tmp_path, str(text), 30).read_text().splitlines()
    assert lines == text.read_text().splitlines()[:30]
    with pytest.raises(AssertionError, match="only 400 documents"):
        growth.write_documents(tmp_path, str(text), 401)
