"""Parts of the rows: the same for everybody, disjoint, never of the test part."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.study.toys import TINY, toy_data, toy_parts

from elmo.classify.data import LabelledTexts
from elmo.classify.features import TokenizedTexts, build_task_vocabulary
from elmo.errors import UserError
from elmo.static.vectors import StaticVectors
from elmo.study.data import StaticFeatures, read_parts, study_data
from elmo.study.news import read_news
from elmo.text.config import ReadOptions

# What a network reads of static vectors is each word's vector, brought to one loudness.


DATA = toy_data()
TEXTS = TokenizedTexts(DATA.words, build_task_vocabulary(DATA.words, 1))
WORDS = ("bank", "loan", "water", "the")
VECTORS = StaticVectors(WORDS, np.arange(12, dtype=np.float32).reshape(4, 3) - 5)


def test_each_word_has_its_vector_and_padding_none() -> None:
    features = StaticFeatures(TEXTS, VECTORS)
    rows = [0, 7, 90]
    read = features.read(rows)
    assert read.layers.shape == (1, 3, 7, 3)
    for place, row in enumerate(rows):
        vectors = VECTORS.embed(DATA.words[row]).astype(np.float64)
        norms = np.linalg.norm(vectors, axis=1, keepdims=True)
        expected = np.sqrt(3) * vectors / np.where(norms > 0, norms, 1)
        np.testing.assert_allclose(read.layers[0, place].numpy(), expected, rtol=1e-6)
    assert read.lengths.tolist() == [7, 7, 7]
    assert torch.equal(read.task_ids, TEXTS.task_ids(rows))


def test_a_word_without_a_vector_takes_that_of_its_lower_case() -> None:
    texts = TokenizedTexts([["Bank", "BANK", "Loans"]], TEXTS.task_vocabulary)
    read = StaticFeatures(texts, VECTORS).read([0])
    assert torch.equal(read.layers[0, 0, 0], read.layers[0, 0, 1])
    assert read.layers[0, 0, 0].any()
    assert not read.layers[0, 0, 2].any()


def test_the_scale_of_a_vector_does_not_matter() -> None:
    louder = StaticVectors(WORDS, VECTORS.vectors * np.float32([[100], [3], [0.1], [1]]))
    one, other = (StaticFeatures(TEXTS, vectors).read([3]) for vectors in (VECTORS, louder))
    torch.testing.assert_close(one.layers, other.layers, rtol=1e-6, atol=0)


def test_nothing_has_no_numbers_but_own_words() -> None:
    fewer = TokenizedTexts(DATA.words, build_task_vocabulary(DATA.words, 9))
    read = StaticFeatures(TEXTS, None).for_texts(fewer).read([1, 2])
    assert read.layers.shape == (1, 2, 7, 0)
    assert torch.equal(read.task_ids, fewer.task_ids([1, 2]))


@given(st.none() | st.integers(1, 100), st.none() | st.integers(2, 20), st.integers(0, 5))
def test_what_is_learned_from_never_chooses_and_is_never_tested(
    rows: int | None, per_class: int | None, seed: int
) -> None:
    train, development = DATA.part(rows, per_class, seed)
    assert not set(train) & set(development)
    assert max(*train, *development) < DATA.train_count
    if per_class is not None:
        chosen = np.concatenate([train, development])
        assert (np.bincount(DATA.classes[chosen]) == per_class).all()
        assert not set(chosen) & set(DATA.split.development)
    else:
        assert len(train) == min(rows or 100, len(DATA.split.train))


def test_few_labels_are_a_part_of_more() -> None:
    few, more = (np.concatenate(DATA.part(None, count, 3)) for count in (4, 9))
    assert set(few) < set(more)


def test_only_some_rows_keep_their_words() -> None:
    some = DATA.only(np.array([3, 100]))
    assert [row for row, words in enumerate(some.words) if words] == [3, 100]
    assert some.words[100] == DATA.words[100]


def test_the_fingerprint_tells_words_classes_and_parts_apart() -> None:
    changed = [
        replace(DATA, words=[["other"], *DATA.words[1:]]),
        replace(DATA, classes=1 - DATA.classes),
        replace(DATA, train_count=79),
        replace(DATA, split=DATA.part(None, None, 0)._replace(development=np.arange(3))),
    ]
    prints = {DATA.fingerprint, *(one.fingerprint for one in changed)}
    assert len(prints) == 5
    assert toy_data().fingerprint == DATA.fingerprint


def test_without_a_test_part_one_is_cut_off(tmp_path: Path) -> None:
    rows = [{"text": f"text {n}", "label": "ab"[n % 2]} for n in range(50)]
    path = tmp_path / "all.jsonl"
    path.write_text("\n".join(json.dumps(row) for row in rows))
    parts = read_parts([str(path)], (), TINY)
    assert (len(parts.train.texts), len(parts.test.texts)) == (40, 10)
    assert not set(parts.train.texts) & set(parts.test.texts)
    assert sorted(parts.test.labels or ()) == ["a"] * 5 + ["b"] * 5


def test_what_is_read_of_ag_news_and_what_is_copied_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    train = LabelledTexts(["a b", "c d", "e f"], ["x", "y", "x"], ["1", "2", "3"])
    test = LabelledTexts(["C D", "new"], ["y", "x"], ["1", "2"])

    def read(sources: Any, options: Any, column: Any) -> LabelledTexts:
        return test if tuple(sources) == ("ag_news:test",) else train

    monkeypatch.setattr("elmo.study.data.read_labelled", read)
    parts = read_parts(["ag_news"], (), TINY, ReadOptions(ag_news_text="both"))
    assert (parts.name, parts.copies) == ("ag_news, both", (1, 0))
    assert read_parts(["ag_news"], (), TINY, ReadOptions()).name == "ag_news"


def test_a_class_with_one_example_is_named(tmp_path: Path) -> None:
    path = tmp_path / "all.jsonl"
    rows = [{"text": "x", "label": "a"}] * 9 + [{"text": "y", "label": "lonely"}]
    path.write_text("\n".join(json.dumps(row) for row in rows))
    with pytest.raises(UserError, match="'lonely' has 1"):
        read_parts([str(path)], (), TINY)
    parts = toy_parts()
    train = LabelledTexts(["x", "y", "z"], ["money", "money", "river"], ["1", "2", "3"])
    with pytest.raises(UserError, match="'river' has 1"):
        study_data(replace(parts, train=train), TINY)


def test_without_texts_they_are_generated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("elmo.study.data.GENERATED_ITEMS", (40, 12))
    parts = read_parts([], [], TINY)
    assert parts.name == "generated"
    assert parts.train.texts == [item.text for item in read_news("train")[:40]]
    tested = read_news("test")[:12]
    assert parts.test.labels == [item.label for item in tested]
    assert list(parts.senses) == tested
    with pytest.raises(UserError, match="came without texts to train on"):
        read_parts([], ["a.csv"], TINY)
