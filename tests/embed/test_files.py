"""Vectors of words for themselves: written as the originals store them, and read back."""

from __future__ import annotations

import os
from itertools import pairwise
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pyarrow.parquet as parquet
import pytest
from tests.interop.golden_elmo import SPECIAL, Golden, golden

from elmo.contextual.embed_words import embed_words
from elmo.contextual.embedder import Embedder
from elmo.contextual.progress import Progress
from elmo.errors import UserError

WORDS = ["cat", "naïve", "雨", "x" * 60, "<S>"]
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
    written = embed_words(embedder, out, WORDS)
    assert (written.path, written.words, written.dim) == (out, 5, 4)
    with h5py.File(out) as file:
        assert list(file) == ["embedding"]
        rows = file["embedding"]
        assert isinstance(rows, h5py.Dataset)
        assert (rows.shape, rows.dtype) == ((5, 4), np.float32)
        np.testing.assert_allclose(rows[()], expected(theirs, WORDS), **CLOSE)
    assert (tmp_path / "tokens.txt").read_text(encoding="utf-8").split() == WORDS
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
    embed_words(embedder, tmp_path / "tokens.npz", WORDS)
    with np.load(tmp_path / "tokens.npz", allow_pickle=False) as found:
        np.testing.assert_allclose(found["vectors"], expected(theirs, WORDS), **CLOSE)
        cuts, text = found["word_offsets"], found["words"].tobytes()
    assert [text[a:b].decode() for a, b in pairwise(cuts)] == WORDS
    assert not (tmp_path / "tokens.txt").exists()


def test_parquet(theirs: Golden, embedder: Embedder, tmp_path: Path) -> None:
    embed_words(embedder, tmp_path / "tokens.parquet", WORDS)
    table = parquet.read_table(tmp_path / "tokens.parquet").to_pydict()
    assert table["word"] == WORDS
    np.testing.assert_allclose(np.array(table["vector"]), expected(theirs, WORDS), **CLOSE)


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
    monkeypatch.setattr("elmo.bilm.token_vectors.WORDS_AT_ONCE", 2)
    for suffix in (".npz", ".parquet", ".hdf5"):
        embed_words(embedder, tmp_path / f"tokens{suffix}", WORDS)
    wanted = expected(theirs, WORDS)
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
