"""What is written can be read again, by us and by gensim, to the last bit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from gensim.models import KeyedVectors
from hypothesis import given
from hypothesis import strategies as st

from elmo.errors import UserError
from elmo.static.word2vec_format import Floats, check_word_vector_file, write_word_vectors
from elmo.text.word_vectors import all_word_vectors

WORDS = ("cat", "naïve", "雨", "1.5", "a\u200cb")
numbers = st.floats(width=32, allow_nan=False, allow_infinity=False)
tables = st.integers(1, 4).flatmap(
    lambda size: st.lists(
        st.lists(numbers, min_size=size, max_size=size), min_size=1, max_size=len(WORDS)
    )
)
endings = pytest.mark.parametrize("ending", [".txt", ".vec", ".bin"])


def bits(vectors: object) -> list[int]:
    return np.array(vectors, np.float32).view(np.uint32).ravel().tolist()


@endings
@given(rows=tables)
def test_what_was_written_is_read(
    tmp_path_factory: pytest.TempPathFactory, ending: str, rows: list[list[float]]
) -> None:
    path = tmp_path_factory.mktemp("vectors") / f"v{ending}"
    write_word_vectors(path, WORDS[: len(rows)], np.array(rows, np.float32))
    pairs = list(all_word_vectors(path))
    assert tuple(word for word, _ in pairs) == WORDS[: len(rows)]
    assert bits([vector for _, vector in pairs]) == bits(rows)


@endings
def test_gensim_reads_it(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"v{ending}"
    vectors: Floats = np.random.default_rng(0).normal(size=(len(WORDS), 7)).astype(np.float32)
    write_word_vectors(path, WORDS, vectors)
    theirs = KeyedVectors.load_word2vec_format(path, binary=ending == ".bin")
    assert tuple(theirs.index_to_key) == WORDS
    assert bits(theirs.vectors) == bits(vectors)


@pytest.mark.parametrize("name", ["v.npz", "v", "v.txt.gz"])
def test_other_names_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(UserError, match=r"ends in \.txt, \.vec \(text\) or \.bin"):
        check_word_vector_file(tmp_path / name)


def test_a_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "v.txt").mkdir()
    with pytest.raises(UserError, match="a file was expected"):
        check_word_vector_file(tmp_path / "v.txt")


@pytest.mark.parametrize("word", ["two words", "", "a\nb", "\u2003"])
def test_words_that_no_reader_could_find_are_refused(tmp_path: Path, word: str) -> None:
    path = tmp_path / "v.txt"
    with pytest.raises(UserError, match="white space"):
        write_word_vectors(path, ["fine", word], np.ones((2, 3), np.float32))
    assert not list(tmp_path.iterdir())
