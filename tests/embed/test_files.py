"""Vectors of words for themselves: written as the originals store them, and read back."""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pyarrow.parquet as parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.official.golden_elmo import SPECIAL, Golden, golden

from elmo.embed.embedder import Embedder, Progress, Vectors
from elmo.embed.files import (
    TEXTS,
    VECTORS,
    WORDS,
    PartsFolder,
    PartTexts,
    Strings,
    WordVectors,
    add_numbers,
    add_pieces,
    add_strings,
    check_word_file,
    embed_words,
    end_to_end,
    offsets,
    write_word_file,
)
from elmo.errors import UserError

WORDS_embed_words = ["cat", "naïve", "雨", "x" * 60, "<S>"]
CLOSE: dict[str, Any] = {"rtol": 0, "atol": 5e-6}


@pytest.fixture(scope="module")
def theirs() -> Golden:
    made = golden()
    made.vocabulary = ["cat", "雨"]
    return made


@pytest.fixture
def folder(theirs: Golden, tmp_path: Path) -> Path:
    return theirs.write(tmp_path / "model")


@pytest.fixture
def embedder(folder: Path) -> Embedder:
    return Embedder.from_pretrained(folder)


def expected(theirs: Golden, words: list[str]) -> Any:
    return np.array([theirs.token(word) for word in words])


@pytest.mark.parametrize("suffix", [".h5", ".hdf5"])
def test_the_layout_is_that_of_the_originals(
    theirs: Golden, folder: Path, embedder: Embedder, tmp_path: Path, suffix: str
) -> None:
    out = tmp_path / f"tokens{suffix}"
    written = embed_words(embedder, out, WORDS_embed_words)
    assert (written.path, written.words, written.dim) == (out, 5, 4)
    with h5py.File(out) as file:
        assert list(file) == ["embedding"]
        rows = file["embedding"]
        assert isinstance(rows, h5py.Dataset)
        assert (rows.shape, rows.dtype) == ((5, 4), np.float32)
        np.testing.assert_allclose(rows[()], expected(theirs, WORDS_embed_words), **CLOSE)
    assert (tmp_path / "tokens.txt").read_text(encoding="utf-8").split() == WORDS_embed_words
    files = (folder / "options.json", folder / "weights.hdf5")
    stored = Embedder.from_official(*files, vocabulary=tmp_path / "tokens.txt", token_vectors=out)
    texts = [["cat", "sat", "雨"], ["naïve"]]
    for one, other in zip(
        stored.encode(texts, output="tokens", layer="all"),
        embedder.encode(texts, output="tokens", layer="all"),
        strict=True,
    ):
        np.testing.assert_allclose(one, other, **CLOSE)


def test_npz(theirs: Golden, embedder: Embedder, tmp_path: Path) -> None:
    embed_words(embedder, tmp_path / "tokens.npz", WORDS_embed_words)
    with np.load(tmp_path / "tokens.npz", allow_pickle=False) as found:
        np.testing.assert_allclose(found["vectors"], expected(theirs, WORDS_embed_words), **CLOSE)
        cuts, text = found["word_offsets"], found["words"].tobytes()
    assert [text[a:b].decode() for a, b in pairwise(cuts)] == WORDS_embed_words
    assert not (tmp_path / "tokens.txt").exists()


def test_parquet(theirs: Golden, embedder: Embedder, tmp_path: Path) -> None:
    embed_words(embedder, tmp_path / "tokens.parquet", WORDS_embed_words)
    table = parquet.read_table(tmp_path / "tokens.parquet").to_pydict()
    assert table["word"] == WORDS_embed_words
    np.testing.assert_allclose(
        np.array(table["vector"]), expected(theirs, WORDS_embed_words), **CLOSE
    )


@pytest.mark.parametrize("content", ["cat\n雨\n", "cat\t7\n雨\t3\n"])
def test_words_of_a_vocabulary_file_of_either_kind(
    theirs: Golden, embedder: Embedder, tmp_path: Path, content: str
) -> None:
    (tmp_path / "words.txt").write_text(content, encoding="utf-8")
    assert embed_words(embedder, tmp_path / "t.hdf5", tmp_path / "words.txt").words == 2
    with h5py.File(tmp_path / "t.hdf5") as file:
        found = file["embedding"][()]  # pyright: ignore
    np.testing.assert_allclose(found, expected(theirs, ["cat", "雨"]), **CLOSE)


def test_the_models_own_words(theirs: Golden, embedder: Embedder, tmp_path: Path) -> None:
    told: list[Progress] = []
    assert embed_words(embedder, tmp_path / "t.hdf5", progress=told.append).words == 5
    assert (tmp_path / "t.txt").read_text(encoding="utf-8").split() == [*SPECIAL, "cat", "雨"]
    assert (told[-1].texts, told[-1].total, told[-1].seconds_left) == (5, 5, 0)


def test_more_words_than_a_portion(
    theirs: Golden, embedder: Embedder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("elmo.bilm.model.WORDS_AT_ONCE", 2)
    for suffix in (".npz", ".parquet", ".hdf5"):
        embed_words(embedder, tmp_path / f"tokens{suffix}", WORDS_embed_words)
    wanted = expected(theirs, WORDS_embed_words)
    with h5py.File(tmp_path / "tokens.hdf5") as file:
        np.testing.assert_allclose(file["embedding"][()], wanted, **CLOSE)  # pyright: ignore
    with np.load(tmp_path / "tokens.npz") as found:
        np.testing.assert_allclose(found["vectors"], wanted, **CLOSE)
    table = parquet.read_table(tmp_path / "tokens.parquet").to_pydict()
    np.testing.assert_allclose(np.array(table["vector"]), wanted, **CLOSE)


def test_a_model_of_words_tells_what_it_does_not_know(tmp_path: Path) -> None:
    theirs = golden(words=[*SPECIAL, "the", "cat"])
    embedder = Embedder.from_pretrained(theirs.write(tmp_path / "model"))
    embed_words(embedder, tmp_path / "t.npz", ["cat", "<UNK>"])
    with np.load(tmp_path / "t.npz") as found:
        np.testing.assert_array_equal(found["vectors"], theirs.weights["embedding"][[4, 2]])
    with pytest.raises(UserError, match=r"1 of 2 words are unknown.*'zebra'"):
        embed_words(embedder, tmp_path / "u.npz", ["cat", "zebra"])
    assert not (tmp_path / "u.npz").exists()


@pytest.mark.parametrize(
    ("name", "words", "message"),
    [
        ("t.npz", [], "no word was given"),
        ("t.npz", ["a", " b"], "without white space around them; got ' b'"),
        ("t.npz", ["a\nb"], "without white space"),
        ("t.npz", "nowhere.txt", r"nowhere\.txt"),
        ("t.txt", ["a"], "ends in one of .npz, .parquet, .h5, .hdf5"),
        ("there.hdf5", ["a"], r"there\.txt, where the words would go, is there already"),
    ],
)
def test_mistakes_are_told(
    embedder: Embedder, tmp_path: Path, name: str, words: Any, message: str
) -> None:
    (tmp_path / "there.txt").write_text("kept")
    with pytest.raises(UserError, match=message):
        embed_words(embedder, tmp_path / name, words)
    assert (tmp_path / "there.txt").read_text() == "kept"


def test_the_458_vectors_that_the_originals_stored(tmp_path: Path) -> None:
    data = os.environ.get("ELMO_DATA")
    if data is None:
        pytest.skip("set ELMO_DATA to a folder with elmo_fixtures to compare with the originals")
    folder = Path(data) / "elmo_fixtures" / "allennlp"
    embedder = Embedder.from_official(folder / "options.json", folder / "lm_weights.hdf5")
    embed_words(embedder, tmp_path / "tokens.hdf5", folder / "vocab_test.txt")
    with (
        h5py.File(tmp_path / "tokens.hdf5") as ours,
        h5py.File(folder / "elmo_token_embeddings.hdf5") as stored,
    ):
        found, wanted = ours["embedding"][()], stored["embedding"][()]  # pyright: ignore
    assert found.shape == (458, 16)
    np.testing.assert_allclose(found, wanted, rtol=0, atol=2e-6)


# What is written piece by piece is what NumPy would have written at once.


@given(st.lists(st.integers(0, 4), max_size=5), st.lists(st.text(max_size=5), max_size=5))
def test_pieces_and_strings(tmp_path_factory: object, sizes: list[int], strings: list[str]) -> None:
    path = Path(tmp_path_factory.mktemp("npz")) / "x.npz"  # pyright: ignore
    random = np.random.default_rng(0)
    pieces = [random.normal(size=(size, 3)).astype(np.float32) for size in sizes]
    with zipfile.ZipFile(path, "w") as archive:
        add_pieces(archive, "rows", (sum(sizes), 3), "<f4", pieces)
        add_numbers(archive, "sizes", np.array(sizes, np.int64))
        add_strings(archive, "name", Strings.of(strings))
    with np.load(path, allow_pickle=False) as found:
        whole = np.concatenate([*pieces, np.zeros((0, 3), np.float32)])
        np.testing.assert_array_equal(found["rows"], whole)
        assert found["sizes"].tolist() == sizes
        text, cuts = found["names"].tobytes(), found["name_offsets"].tolist()
    assert [text[a:b].decode() for a, b in pairwise(cuts)] == strings
    assert offsets(np.array(sizes, np.int64)).tolist() == [
        sum(sizes[:n]) for n in range(len(sizes) + 1)
    ]


@given(st.lists(st.text(st.characters(exclude_categories=()), max_size=5), max_size=5))
def test_strings_come_back(strings: list[str]) -> None:
    packed = Strings.of(strings)
    assert packed.decoded() == strings
    assert packed.sizes.tolist() == [len(one.encode("utf-8", "surrogatepass")) for one in strings]


# A file of token vectors is whole or not there, in every format.


SUFFIXES = [".npz", ".parquet", ".h5", ".hdf5"]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_work_that_fails_leaves_nothing(tmp_path: Path, suffix: str) -> None:
    def portions() -> Iterator[Vectors]:
        yield np.zeros((1, 2), np.float32)
        raise UserError("out of luck")

    with pytest.raises(UserError, match="out of luck"):
        write_word_file(tmp_path / f"t{suffix}", WordVectors(("a", "b"), 2, portions()))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_what_is_there_is_not_written_over(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"t{suffix}"
    check_word_file(path)
    write_word_file(path, WordVectors(("a",), 2, [np.ones((1, 2), np.float32)]))
    with pytest.raises(UserError, match="is there already"):
        check_word_file(path)
    has_words_beside = (tmp_path / "t.txt").exists()
    assert has_words_beside == (suffix in (".h5", ".hdf5"))


# Parts give back what was put into them, in order, whatever the texts hold.


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
