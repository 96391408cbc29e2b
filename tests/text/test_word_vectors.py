"""Word vectors in word2vec's formats and in GloVe's."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path

import numpy as np
import pytest
from gensim.models import KeyedVectors
from hypothesis import given
from hypothesis import strategies as st

from elmo.errors import UserError
from elmo.text.vocabulary import SPECIAL_WORDS, Vocabulary
from elmo.text.word_vectors import (
    Floats,
    all_word_vectors,
    check_word_vector_file,
    read_word_vectors,
    vector_size,
    write_word_vectors,
)

WORDS = ("cat", "naïve", "雨")
VOCABULARY = Vocabulary((*SPECIAL_WORDS, *WORDS), (1,) * 6)
values = st.floats(-1e6, 1e6, width=32)
tables = st.integers(1, 5).flatmap(
    lambda size: st.lists(st.lists(values, min_size=size, max_size=size), min_size=1, max_size=3)
)


def as_binary(rows: list[list[float]]) -> bytes:
    """The binary format as word2vec writes it."""
    content = f"{len(rows)} {len(rows[0])}\n".encode()
    for word, row in zip(WORDS, rows, strict=False):
        content += word.encode() + b" " + struct.pack(f"<{len(row)}f", *row) + b"\n"
    return content


def as_text(rows: list[list[float]]) -> bytes:
    lines = [f"{len(rows)} {len(rows[0])}"]
    lines += [f"{w} {' '.join(map(repr, row))}" for w, row in zip(WORDS, rows, strict=False)]
    return ("\n".join(lines) + "\n").encode()


def as_glove(rows: list[list[float]]) -> bytes:
    return as_text(rows).split(b"\n", 1)[1]


@given(tables, st.sampled_from([as_binary, as_text, as_glove]), st.booleans())
def test_what_was_written_is_read(tmp_path_factory, rows, write, packed):
    path = tmp_path_factory.mktemp("vectors") / ("v.bin.gz" if packed else "v.bin")
    content = write(rows)
    path.write_bytes(gzip.compress(content) if packed else content)
    found = read_word_vectors(path, VOCABULARY)
    assert vector_size(path) == len(rows[0])
    assert sorted(found) == list(range(3, 3 + len(rows)))
    for place, row in enumerate(rows, start=3):
        assert np.array_equal(found[place], np.array(row, np.float32))


def test_words_that_nobody_asked_for_are_passed_over(tmp_path):
    path = tmp_path / "v.txt"
    path.write_text("2 2\nzebra 1 2\ncat 3 4\n")
    found = read_word_vectors(path, VOCABULARY)
    assert list(found) == [3]
    assert found[3].tolist() == [3, 4]


def test_a_word_takes_the_vector_of_its_lower_case_form_if_it_has_none(tmp_path):
    path = tmp_path / "glove.txt"
    path.write_text("bush 1 2\nUS 3 4\nus 5 6\nbush 7 8\n. . . 9 9\n")
    words = ("Bush", "BUSH", "bush", "US", "Us", "Cat", ". . .")
    found = read_word_vectors(path, Vocabulary((*SPECIAL_WORDS, *words), (1,) * 10))
    vectors = {words[place - 3]: vector.tolist() for place, vector in found.items()}
    assert vectors == {
        "Bush": [1, 2],
        "BUSH": [1, 2],
        "bush": [1, 2],
        "US": [3, 4],
        "Us": [5, 6],
        ". . .": [9, 9],
    }


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "first line"),
        (b"hello world\n", "first line"),
        (b"1 999999999999\ncat 1\n", "expected 1 to"),
        (b"cat\n", "first line"),
        (b"cat 1 two\n", "first line"),
        (b"cat 1 2\nnaive 1\n", "line 2"),
        (b"2 2\ncat 1 2\nna\xc3\xafve 1 nan\n", "'na\u00efve' is not finite"),
        (as_binary([[1.5, 2.5], [np.inf, 4.5]]), "is not finite"),
        (b"2 2\ncat 1 2\nnaive 1\n", "line 3"),
        (as_binary([[1.5, 2.5], [3.5, 4.5]])[:-7], "cut short"),
        (b"3 2\ncat 1 2\n", "cut short, 1 of 3"),
    ],
)
def test_what_is_wrong_is_said(tmp_path, content, says):
    path = tmp_path / "v.bin"
    path.write_bytes(content)
    with pytest.raises(UserError, match=says):
        read_word_vectors(path, VOCABULARY)


def test_a_missing_file_is_a_users_mistake(tmp_path):
    with pytest.raises(UserError, match="nothing"):
        read_word_vectors(tmp_path / "nothing.bin", VOCABULARY)


# What is written can be read again, by us and by gensim, to the last bit.


WORDS_word2vec_format = ("cat", "naïve", "雨", "1.5", "a\u200cb")
numbers = st.floats(width=32, allow_nan=False, allow_infinity=False)
tables_word2vec_format = st.integers(1, 4).flatmap(
    lambda size: st.lists(
        st.lists(numbers, min_size=size, max_size=size),
        min_size=1,
        max_size=len(WORDS_word2vec_format),
    )
)
endings = pytest.mark.parametrize("ending", [".txt", ".vec", ".bin"])


def bits(vectors: object) -> list[int]:
    return np.array(vectors, np.float32).view(np.uint32).ravel().tolist()


@endings
@given(rows=tables_word2vec_format)
def test_what_was_written_is_read_word2vec_format(
    tmp_path_factory: pytest.TempPathFactory, ending: str, rows: list[list[float]]
) -> None:
    path = tmp_path_factory.mktemp("vectors") / f"v{ending}"
    write_word_vectors(path, WORDS_word2vec_format[: len(rows)], np.array(rows, np.float32))
    pairs = list(all_word_vectors(path))
    assert tuple(word for word, _ in pairs) == WORDS_word2vec_format[: len(rows)]
    assert bits([vector for _, vector in pairs]) == bits(rows)


@endings
def test_gensim_reads_it(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"v{ending}"
    vectors: Floats = (
        np.random.default_rng(0).normal(size=(len(WORDS_word2vec_format), 7)).astype(np.float32)
    )
    write_word_vectors(path, WORDS_word2vec_format, vectors)
    theirs = KeyedVectors.load_word2vec_format(path, binary=ending == ".bin")
    assert tuple(theirs.index_to_key) == WORDS_word2vec_format
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
