"""Parts give back what was put into them, in order, whatever the texts hold."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmo.contextual.vector_parts import (
    TEXTS,
    VECTORS,
    WORDS,
    PartsFolder,
    PartTexts,
    end_to_end,
)
from elmo.errors import UserError

ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=8)
WORD = st.text(min_size=1, max_size=4)
SOME_TEXTS = st.lists(st.tuples(ANY_TEXT, st.lists(WORD, max_size=4)), min_size=1, max_size=4)


def part_of(texts: list[tuple[str, list[str]]]) -> PartTexts:
    return PartTexts(tuple(one for one, _ in texts), tuple(tuple(words) for _, words in texts))


@given(st.lists(SOME_TEXTS, min_size=1, max_size=3))
def test_parts_come_back(
    tmp_path_factory: pytest.TempPathFactory, given_parts: list[list[tuple[str, list[str]]]]
) -> None:
    folder = PartsFolder(tmp_path_factory.mktemp("parts"))
    parts = [part_of(some) for some in given_parts]
    random = np.random.default_rng(0)
    vectors = [random.normal(size=(len(part.texts), 3)).astype(np.float32) for part in parts]
    for part, rows in zip(parts, vectors, strict=True):
        folder.add(part, rows, None)

    assert list(folder.texts()) == parts
    everything = [pair for some in given_parts for pair in some]
    assert folder.lengths().tolist() == [len(words) for _, words in everything]
    assert folder.strings(TEXTS).decoded() == [text for text, _ in everything]
    lists = [json.loads(one) for one in folder.strings(WORDS).decoded()]
    assert lists == [words for _, words in everything]
    assert folder.shape() == (len(everything), 3)
    np.testing.assert_array_equal(
        np.concatenate(list(folder.arrays(VECTORS))), np.concatenate(vectors)
    )


def test_nothing_yet(tmp_path: Path) -> None:
    folder = PartsFolder(tmp_path)
    assert len(folder) == 0
    assert folder.lengths().tolist() == []
    assert list(folder.texts()) == []


def test_a_damaged_part_is_told(tmp_path: Path) -> None:
    folder = PartsFolder(tmp_path)
    folder.add(PartTexts(("a cat",), (("a", "cat"),)), np.zeros((1, 2), np.float32), None)
    (path,) = tmp_path.iterdir()
    path.write_bytes(path.read_bytes()[:40])
    with pytest.raises(UserError, match="damaged"):
        folder.lengths()


def test_words_come_before_layers() -> None:
    two_layers = [np.full((2, words, 3), words, np.float32) for words in (1, 2)]
    rows = end_to_end(two_layers, pooled=False)
    assert rows.shape == (3, 2, 3)
    assert rows[:, 0, 0].tolist() == [1, 2, 2]
