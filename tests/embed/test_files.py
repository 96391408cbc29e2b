"""Vector files hold what encode returns; a killed job resumes and writes the same bytes."""

from __future__ import annotations

import json
import multiprocessing
import os
import shutil
import sys
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pyarrow.parquet as parquet
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from tests.official.golden_elmo import SPECIAL, Golden, golden
from tests.tiny_models import make_model

import elmo
from elmo.embed import files
from elmo.embed.config import EncodeConfig
from elmo.embed.embedder import Embedder, Encoder, Progress
from elmo.embed.files import (
    EmbeddedFile,
    Journal,
    check_vector_file,
    embed_text,
    embed_words,
    load_vectors,
)
from elmo.errors import UserError
from elmo.files import claim_folder, locked
from elmo.text.config import ReadOptions
from elmo.text.tokenizer import TokenizerConfig

Array = NDArray[np.float32]


def without_silence(text: str) -> list[str]:
    """A tokenizer for which some texts have no words."""
    return [word for word in text.split() if word != "…"]


EMBEDDER = Embedder(
    replace(
        make_model(),
        tokenizer=TokenizerConfig(tokenizer="custom"),
        custom_tokenizer=without_silence,
    )
)
WORDS = ("the", "cat", "sat", "naïve", "雨", "unheard/of")
TEXTS = [" ".join(WORDS[: 1 + n % 5] + WORDS[n % 6 :]) for n in range(20)]
TEXTS[3] = TEXTS[4]
EMPTY = 7
TEXTS[EMPTY] = "…"


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "TOKENS_PER_CHUNK", 30)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "texts.jsonl"
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in TEXTS))
    return path


def write(source: Path, name: str, **settings: Any) -> EmbeddedFile:
    return embed_text(EMBEDDER, str(source), source.with_name(name), EncodeConfig(**settings))


def read_npz(path: Path) -> list[Array]:
    """The vectors of each text, by the offsets; texts and words are checked on the way."""
    with np.load(path, allow_pickle=False) as found:
        texts, at = found["texts"].tobytes(), found["text_offsets"].tolist()
        decoded = [texts[a:b].decode() for a, b in pairwise(at)]
        assert decoded == TEXTS
        words, at = found["words"].tobytes(), found["word_offsets"].tolist()
        lists = [json.loads(words[a:b]) for a, b in pairwise(at)]
        assert lists == [EMBEDDER.loaded.words(text) for text in TEXTS]
        assert found["lengths"].tolist() == [len(one) for one in lists]
        if "offsets" not in found:
            return list(found["vectors"])
        rows = np.split(found["vectors"], found["offsets"][1:-1])
        return [one.swapaxes(0, 1) if one.ndim == 3 else one for one in rows]


def read_parquet(path: Path) -> list[Array]:
    table = parquet.read_table(path)
    assert table.column("id").to_pylist() == list(range(len(TEXTS)))
    assert table.column("text").to_pylist() == TEXTS
    words = [EMBEDDER.loaded.words(text) for text in TEXTS]
    assert table.column("tokens").to_pylist() == words
    rows = [np.array(one, np.float32) for one in table.column("vector").to_pylist()]
    return [one.swapaxes(0, 1) if one.ndim == 3 else one for one in rows]


def read_h5(path: Path) -> list[Array]:
    with h5py.File(path) as file:
        assert [one.decode() for one in file["sentences"]] == TEXTS
        words = [EMBEDDER.loaded.words(text) for text in TEXTS]
        assert [json.loads(one) for one in file["words"]] == words
        return [file[str(number)][()] for number in range(len(file) - 2)]


READERS = {".npz": read_npz, ".parquet": read_parquet, ".h5": read_h5}


@pytest.mark.parametrize("ending", list(READERS))
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"output": "tokens"},
        {"output": "tokens", "layer": "all"},
        {"layer": "all", "pooling": "mean+max"},
        {"output": "tokens", "initial_state": "carry", "slots": 3},
    ],
)
def test_files_hold_what_encode_gives(source: Path, ending: str, settings: Any) -> None:
    written = write(source, f"vectors{ending}", **settings)
    wanted = EMBEDDER.encode(TEXTS, **settings)
    found = READERS[ending](written.path)
    loaded = elmo.load_vectors(written.path)
    assert loaded.texts == TEXTS
    assert loaded.words == [EMBEDDER.loaded.words(text) for text in TEXTS]
    assert isinstance(loaded.vectors, np.ndarray) == isinstance(wanted, np.ndarray)
    assert len(found) == len(loaded.vectors) == len(wanted) == written.texts
    for read, vectors, expected in zip(found, loaded.vectors, wanted, strict=True):
        assert read.size == expected.size
        np.testing.assert_allclose(read.reshape(expected.shape), expected, rtol=0, atol=2e-6)
        np.testing.assert_array_equal(vectors, read.reshape(expected.shape))
    assert sorted(path.name for path in source.parent.iterdir()) == sorted(
        [source.name, written.path.name]
    )


class Killed(BaseException):
    """As if the process had ended."""


@pytest.mark.parametrize("ending", list(READERS))
@pytest.mark.parametrize("start", ["zero", "carry"])
@pytest.mark.parametrize("output", ["pooled", "tokens"])
def test_a_killed_job_goes_on_and_writes_the_same_file(
    source: Path, monkeypatch: pytest.MonkeyPatch, ending: str, start: Any, output: Any
) -> None:
    settings: Any = {"initial_state": start, "output": output}
    whole = write(source, f"whole{ending}", **settings).path.read_bytes()
    encode = Encoder.encode
    calls: list[int] = []

    def stops(self: Encoder, texts: Any, on_texts: Any = None) -> Any:
        calls.append(len(texts))
        if len(calls) in (3, 5):
            raise Killed
        return encode(self, texts, on_texts)

    monkeypatch.setattr(Encoder, "encode", stops)
    for _ in range(2):
        with pytest.raises(Killed):
            write(source, f"again{ending}", **settings)
        assert not source.with_name(f"again{ending}").exists()
    again = write(source, f"again{ending}", **settings)
    assert again.path.read_bytes() == whole
    # Only the chunks that were being encoded when it was stopped were encoded twice.
    assert sum(calls) - calls[2] - calls[4] == len(TEXTS)


def test_a_job_of_other_settings_is_not_mixed_in(
    source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(Journal, "finish", killed)
        with pytest.raises(Killed):
            write(source, "vectors.npz")
    for other_settings, told in (({"layer": 1}, "layer"), ({"pooling": "max"}, "pooling")):
        with pytest.raises(UserError, match=f"differs from this command:\n  {told}: "):
            write(source, "vectors.npz", **other_settings)
    other = Embedder(replace(EMBEDDER.loaded, model=make_model(seed=3).model))
    with pytest.raises(UserError, match="differs from this command:\n  model: "):
        embed_text(other, str(source), source.with_name("vectors.npz"))
    content, status = source.read_text(), source.stat()
    source.write_text(json.dumps({"text": "another cat"}))
    with pytest.raises(UserError, match="differs from this command:\n  texts: "):
        write(source, "vectors.npz")
    # Other content of the same size and time, as archives and copies make it.
    source.write_text(content.replace("cat", "dog"))
    os.utime(source, ns=(status.st_atime_ns, status.st_mtime_ns))
    with pytest.raises(UserError, match="is not the one that"):
        write(source, "vectors.npz")
    source.write_text(content)
    os.utime(source, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert write(source, "vectors.npz").texts == len(TEXTS)


def test_fresh_starts_over(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = source.with_name("vectors.npz")
    with monkeypatch.context() as patch:
        patch.setattr(Journal, "finish", killed)
        with pytest.raises(Killed):
            write(source, out.name)
    with pytest.raises(UserError, match="use --fresh to start over"):
        write(source, out.name, layer=1)
    embed_text(EMBEDDER, str(source), out, EncodeConfig(layer=1), fresh=True)
    assert out.read_bytes() == write(source, "other.npz", layer=1).path.read_bytes()
    with pytest.raises(UserError, match="exists already"):
        embed_text(EMBEDDER, str(source), out, fresh=True)


def killed(*_: Any, **__: Any) -> None:
    raise Killed


@pytest.mark.parametrize("ending", list(READERS))
@pytest.mark.parametrize("where", ["append", "record", "finish", "rename"])
def test_a_kill_between_any_two_writes_changes_nothing(
    source: Path, monkeypatch: pytest.MonkeyPatch, ending: str, where: str
) -> None:
    whole = write(source, f"whole{ending}", output="tokens").path.read_bytes()
    for calls_before in (0, 1, 2):
        with monkeypatch.context() as patch:
            if where == "append":  # half a chunk is written
                kill_after(patch, files, "stack_rows", calls_before)
            elif where == "record":  # a chunk is written, but not recorded
                kill_after(patch, files, "write_json", calls_before)
            elif where == "finish":
                module, name = {
                    ".npz": (np.lib.format, "write_array"),
                    ".parquet": (files, "vector_table"),
                    ".h5": (files, "unstack_rows"),
                }[ending]
                kill_after(patch, module, name, 1)
            else:
                kill_after(patch, files, "sync", 0)
            with pytest.raises(Killed):
                write(source, f"again{ending}", output="tokens")
        assert not source.with_name(f"again{ending}").exists()
        # What a dying process had written after its last record.
        for path in source.with_name(f"again{ending}.unfinished").glob("[vtlw]*"):
            path.write_bytes(path.read_bytes() + b"half a chunk")
    assert write(source, f"again{ending}", output="tokens").path.read_bytes() == whole
    assert not source.with_name(f"again{ending}.unfinished").exists()


def test_a_kill_after_the_rename_leaves_nothing_to_the_next_run(source: Path) -> None:
    write(source, "v.npz")
    folder = source.with_name("v.npz.unfinished")
    claim_folder(folder)
    (folder / "progress.json").write_text("{}")
    with pytest.raises(UserError, match="exists already"):
        write(source, "v.npz")
    assert not folder.exists()


@pytest.mark.parametrize("deleted", range(4))
def test_a_kill_while_the_journal_is_removed_blocks_nothing(
    source: Path, monkeypatch: pytest.MonkeyPatch, deleted: int
) -> None:
    """A journal without its mark was taken for a folder of the user, and refused for ever."""
    whole = write(source, "whole.npz").path.read_bytes()

    def dies(folder: Path, **_: Any) -> None:
        for path in sorted(Path(folder).iterdir())[:deleted]:
            path.unlink()
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(shutil, "rmtree", dies)
        with pytest.raises(Killed):
            write(source, "v.npz")
    assert source.with_name("v.npz").read_bytes() == whole
    with pytest.raises(UserError, match="exists already"):
        write(source, "v.npz")
    source.with_name("v.npz").unlink()
    assert write(source, "v.npz").path.read_bytes() == whole
    names = {path.name for path in source.parent.iterdir()}
    assert names == {source.name, "whole.npz", "v.npz"}


def kill_after(patch: pytest.MonkeyPatch, module: Any, name: str, calls: int) -> None:
    real, left = getattr(module, name), [calls]

    def dies(*args: Any, **settings: Any) -> Any:
        if not left[0]:
            raise Killed
        left[0] -= 1
        return real(*args, **settings)

    patch.setattr(module, name, dies)


def test_two_processes_cannot_write_one_file(source: Path) -> None:
    folder = source.with_name("v.npz.unfinished")
    claim_folder(folder)
    with locked(folder / ".lock", ""):
        with pytest.raises(UserError, match="another process is writing this file"):
            write(source, "v.npz")
        assert folder.exists(), "the refused job removed what the other one has written"
    assert write(source, "v.npz").texts == len(TEXTS)


def test_many_processes_at_once_write_one_right_file(source: Path) -> None:
    whole = write(source, "whole.npz").path.read_bytes()
    context = multiprocessing.get_context("fork")
    together = [context.Process(target=write, args=(source, "v.npz")) for _ in range(4)]
    for process in together:
        process.start()
    for process in together:
        process.join()
    assert [process.exitcode for process in together].count(0) == 1
    assert source.with_name("v.npz").read_bytes() == whole


def test_a_mistake_leaves_nothing_and_a_users_folder_is_left_alone(source: Path) -> None:
    with pytest.raises(UserError, match="no column"):
        embed_text(EMBEDDER, str(source), source.with_name("v.npz"), read=ReadOptions(column="7"))
    assert not source.with_name("v.npz.unfinished").exists()
    assert write(source, "v.npz").texts == len(TEXTS)
    mine = source.with_name("w.npz.unfinished")
    mine.mkdir()
    (mine / "thesis.tex").write_text("precious")
    with pytest.raises(UserError, match=r"did not write \(thesis\.tex, …\)"):
        write(source, "w.npz")
    assert (mine / "thesis.tex").read_text() == "precious"


def test_a_source_that_changes_while_it_is_read_is_an_error(
    source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    finished = Encoder.encode

    def grows(self: Encoder, texts: Any, on_texts: Any = None) -> Any:
        with source.open("a") as file:
            file.write(json.dumps({"text": "the cat"}) + "\n")
        return finished(self, texts, on_texts)

    monkeypatch.setattr(Encoder, "encode", grows)
    monkeypatch.setattr(files, "TOKENS_PER_CHUNK", 1 << 16)
    with pytest.raises(UserError, match="changed while it was read"):
        write(source, "v.npz")
    assert not source.with_name("v.npz").exists()


def test_missing_vectors_are_noticed_before_the_file_appears(
    source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(Journal, "finish", killed)
        with pytest.raises(Killed):
            write(source, "v.npz")
    path = source.with_name("v.npz.unfinished") / "vectors"
    path.write_bytes(path.read_bytes()[:-4])
    with pytest.raises(UserError, match="damaged; use --fresh"):
        write(source, "v.npz")


def test_the_texts_are_read_once(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[Any] = []
    real = files.read_documents

    def counted(*args: Any) -> Any:
        reads.append(args)
        return real(*args)

    monkeypatch.setattr(files, "read_documents", counted)
    told: list[Progress] = []
    out = source.with_name("v.npz")
    written = embed_text(EMBEDDER, [str(source)], out, progress=told.append)
    assert len(reads) == 1
    assert (written.texts, written.dim) == (20, 12)
    assert written.tokens == sum(len(EMBEDDER.loaded.words(text)) for text in TEXTS)
    assert written.empty == (EMPTY,)
    assert told[-1].texts == 20


ANY_TEXT = st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=8)


@given(st.lists(ANY_TEXT.filter(lambda text: text.split()), min_size=1, max_size=6))
@hypothesis_settings(max_examples=15, deadline=None)
def test_texts_come_back_whatever_they_hold(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str]
) -> None:
    folder = tmp_path_factory.mktemp("texts")
    source = folder / "texts.jsonl"
    source.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    expected = [" ".join(text.splitlines()) for text in texts]
    for ending in READERS:
        loaded = load_vectors(write(source, f"v{ending}").path)
        if ending == ".h5":
            expected = [text.replace("\0", "\ufffd") for text in expected]
        assert loaded.texts == expected


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("vectors.xyz", {}, "ends in one of"),
        ("texts.h5", {}, "exists already"),
        ("vectors.npz", {"layer": 9}, "layers 0 to 2"),
        ("vectors.npz", {"pooling": "sum"}, "got 'sum'"),
    ],
)
def test_what_cannot_be_written_is_told_first(
    source: Path, name: str, settings: Any, message: str
) -> None:
    source.with_name("texts.h5").touch()
    with pytest.raises(UserError, match=message):
        write(source, name, **settings)
    assert not source.with_name(f"{name}.unfinished").exists()


def test_what_cannot_be_loaded_is_told(tmp_path: Path) -> None:
    for name in ("a.npz", "a.parquet", "a.h5"):
        with pytest.raises(UserError, match="no such file"):
            load_vectors(tmp_path / name)
        (tmp_path / name).write_bytes(b"something else")
        with pytest.raises(UserError, match="not a vector file"):
            load_vectors(tmp_path / name)
    (tmp_path / "a.txt").touch()
    with pytest.raises(UserError, match="ends in one of"):
        load_vectors(tmp_path / "a.txt")


# Single words.

SINGLE_WORDS = ["cat", "naïve", "雨", "x" * 60, "<S>"]
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
    written = embed_words(embedder, out, SINGLE_WORDS)
    assert (written.path, written.texts, written.dim) == (out, 5, 4)
    with h5py.File(out) as file:
        assert list(file) == ["embedding"]
        rows = file["embedding"]
        assert isinstance(rows, h5py.Dataset)
        assert (rows.shape, rows.dtype) == ((5, 4), np.float32)
        np.testing.assert_allclose(rows[()], expected(theirs, SINGLE_WORDS), **CLOSE)
    assert (tmp_path / "tokens.txt").read_text(encoding="utf-8").split() == SINGLE_WORDS
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
    embed_words(embedder, tmp_path / "tokens.npz", SINGLE_WORDS)
    with np.load(tmp_path / "tokens.npz", allow_pickle=False) as found:
        np.testing.assert_allclose(found["vectors"], expected(theirs, SINGLE_WORDS), **CLOSE)
        cuts, text = found["word_offsets"], found["words"].tobytes()
    assert [text[a:b].decode() for a, b in pairwise(cuts)] == SINGLE_WORDS
    assert not (tmp_path / "tokens.txt").exists()


def test_parquet(theirs: Golden, embedder: Embedder, tmp_path: Path) -> None:
    embed_words(embedder, tmp_path / "tokens.parquet", SINGLE_WORDS)
    table = parquet.read_table(tmp_path / "tokens.parquet").to_pydict()
    assert table["word"] == SINGLE_WORDS
    np.testing.assert_allclose(np.array(table["vector"]), expected(theirs, SINGLE_WORDS), **CLOSE)


@pytest.mark.parametrize("content", ["cat\n雨\n", "cat\t7\n雨\t3\n"])
def test_words_of_a_vocabulary_file_of_either_kind(
    theirs: Golden, embedder: Embedder, tmp_path: Path, content: str
) -> None:
    (tmp_path / "words.txt").write_text(content, encoding="utf-8")
    assert embed_words(embedder, tmp_path / "t.hdf5", tmp_path / "words.txt").texts == 2
    with h5py.File(tmp_path / "t.hdf5") as file:
        found = file["embedding"][()]  # pyright: ignore
    np.testing.assert_allclose(found, expected(theirs, ["cat", "雨"]), **CLOSE)


def test_the_models_own_words(theirs: Golden, embedder: Embedder, tmp_path: Path) -> None:
    told: list[Progress] = []
    assert embed_words(embedder, tmp_path / "t.hdf5", progress=told.append).texts == 5
    assert (tmp_path / "t.txt").read_text(encoding="utf-8").split() == [*SPECIAL, "cat", "雨"]
    assert (told[-1].texts, told[-1].total, told[-1].seconds_left) == (5, 5, 0)


def test_more_words_than_a_portion(
    theirs: Golden, embedder: Embedder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("elmo.bilm.model.WORDS_AT_ONCE", 2)
    for suffix in (".npz", ".parquet", ".hdf5"):
        embed_words(embedder, tmp_path / f"tokens{suffix}", SINGLE_WORDS)
    wanted = expected(theirs, SINGLE_WORDS)
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
        ("t.npz", [], "at least one word"),
        ("t.npz", ["a", " b"], "without white space around them; got ' b'"),
        ("t.npz", ["a\nb"], "without white space"),
        ("t.npz", "nowhere.txt", r"nowhere\.txt"),
        ("t.txt", ["a"], "ends in one of .npz, .parquet, .h5, .hdf5"),
        ("there.hdf5", ["a"], r"there\.txt, where the words would go, exists already"),
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


@pytest.mark.parametrize("suffix", files.SUFFIXES)
def test_work_on_words_that_fails_leaves_nothing(
    embedder: Embedder, tmp_path: Path, suffix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: Any) -> Iterator[Array]:
        yield np.zeros((1, 4), np.float32)
        raise UserError("out of luck")

    monkeypatch.setattr(files, "token_vectors", fails)
    before = set(tmp_path.iterdir())
    with pytest.raises(UserError, match="out of luck"):
        embed_words(embedder, tmp_path / f"t{suffix}", ["a", "b"])
    assert set(tmp_path.iterdir()) == before


@pytest.mark.parametrize("suffix", files.SUFFIXES)
def test_files_of_words_are_read_back_and_not_overwritten(
    theirs: Golden, embedder: Embedder, tmp_path: Path, suffix: str
) -> None:
    path = embed_words(embedder, tmp_path / f"t{suffix}", SINGLE_WORDS).path
    loaded = load_vectors(path)
    if suffix != ".npy":  # one array, which holds no text
        assert (loaded.texts, loaded.words) == (SINGLE_WORDS, [[word] for word in SINGLE_WORDS])
    np.testing.assert_allclose(loaded.vectors, expected(theirs, SINGLE_WORDS), **CLOSE)
    with pytest.raises(UserError, match="exists already"):
        check_vector_file(path, words=True)
    assert (tmp_path / "t.txt").exists() == (suffix in (".h5", ".hdf5"))


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have names in Unicode only")
def test_a_name_that_is_not_utf8(embedder: Embedder, tmp_path: Path) -> None:
    for suffix in (".npz", ".parquet", ".h5"):
        path = tmp_path / f"\udcff{suffix}"
        embed_words(embedder, path, SINGLE_WORDS)
        assert load_vectors(path).texts == SINGLE_WORDS
