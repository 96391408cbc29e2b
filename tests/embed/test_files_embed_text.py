"""Files hold what encode gives; a job that was killed goes on and writes the same file."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pyarrow.parquet as parquet
import pytest
from numpy.typing import NDArray
from tests.tiny_models import make_model

from elmo.embed import files as job
from elmo.embed.config import EncodeConfig
from elmo.embed.embedder import Embedder, Encoder, Progress
from elmo.embed.files import EmbeddedFile, embed_text
from elmo.errors import UserError
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
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job, "TOKENS_A_PART", 30)


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
        {"output": "tokens", "start": "carry", "slots": 3},
    ],
)
def test_files_hold_what_encode_gives(source: Path, ending: str, settings: Any) -> None:
    written = write(source, f"vectors{ending}", **settings)
    wanted = EMBEDDER.encode(TEXTS, **settings)
    found = READERS[ending](written.path)
    assert len(found) == len(wanted) == written.texts
    for one, other in zip(found, wanted, strict=True):
        assert one.size == other.size
        np.testing.assert_allclose(one.reshape(other.shape), other, rtol=0, atol=2e-6)
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
    settings: Any = {"start": start, "output": output}
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
    # Only the parts that were being made when it was stopped were begun twice.
    assert sum(calls) - calls[2] - calls[4] == len(TEXTS)


def test_parts_of_another_job_are_not_taken(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stops(*_: Any, **__: Any) -> None:
        raise Killed

    monkeypatch.setattr(job, "write_vector_file", stops)
    with pytest.raises(Killed):
        write(source, "vectors.npz")
    for settings, told in (({"layer": 1}, "layer"), ({"pooling": "max"}, "pooling")):
        with pytest.raises(UserError, match=f"parts of another job, of other {told};"):
            write(source, "vectors.npz", **settings)
    other = Embedder(replace(EMBEDDER.loaded, model=make_model(seed=3).model))
    with pytest.raises(UserError, match="of other model;"):
        embed_text(other, str(source), source.with_name("vectors.npz"))
    source.write_text(json.dumps({"text": "another cat"}))
    with pytest.raises(UserError, match="of other texts;"):
        write(source, "vectors.npz")


def test_what_was_written_and_how_far_it_is_are_told(source: Path) -> None:
    told: list[Progress] = []
    written = embed_text(EMBEDDER, [str(source)], source.with_name("v.npz"), progress=told.append)
    assert (written.texts, written.dim) == (20, 12)
    assert written.tokens == sum(len(EMBEDDER.loaded.words(text)) for text in TEXTS)
    assert written.empty == (EMPTY,)
    assert (told[-1].texts, told[-1].total) == (20, 20)


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("vectors.csv", {}, "ends in one of .npz, .parquet, .h5"),
        ("texts.h5", {}, "is there already"),
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
    assert not source.with_name(f"{name}.parts").exists()
