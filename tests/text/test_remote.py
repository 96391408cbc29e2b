"""Text from elsewhere: compressed files, fsspec addresses, data sets of the hub."""

from __future__ import annotations

import bz2
import json
import lzma
from pathlib import Path

import pytest

from elmo.errors import UserError
from elmo.text.config import ReadOptions
from elmo.text.sources import read_documents, resolve

LINES = ["Oil prices fell .", "雨", "It rained . " * 500]
CONTENT = "\n".join(LINES).encode()


def read(*names: object) -> list[str]:
    return list(read_documents(resolve([str(name) for name in names]), ReadOptions()))


def zstd(content: bytes) -> bytes:
    package = pytest.importorskip("zstandard", reason="zstandard is not installed")
    half = len(content) // 2  # two frames, as parallel compressors write them
    pack = package.ZstdCompressor().compress
    return pack(content[:half]) + pack(content[half:])


PACKERS = {".bz2": bz2.compress, ".xz": lzma.compress, ".zst": zstd}


@pytest.mark.parametrize("suffix", PACKERS)
def test_compressed_files_are_read_and_damage_is_told(tmp_path, suffix) -> None:
    path = tmp_path / f"corpus.txt{suffix}"
    packed = PACKERS[suffix](CONTENT)
    path.write_bytes(packed)
    assert read(path) == [line.rstrip() for line in LINES[:2]] + [LINES[2]]
    assert read(tmp_path) == read(path)
    for damaged in (packed[:-9], b"not compressed at all"):
        path.write_bytes(damaged)
        with pytest.raises(UserError, match=r"is not a complete \w+ file"):
            read(path)


@pytest.fixture
def cache(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("ELMO_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_addresses_are_fetched_once_and_again_when_they_change(cache, tmp_path) -> None:
    fsspec = pytest.importorskip("fsspec")
    files = fsspec.filesystem("memory")
    files.pipe("/door/a.txt", b"one text\n")
    files.pipe("/door/b.jsonl.xz", lzma.compress(b'{"text": "another"}\n'))
    assert read("memory://door/a.txt") == ["one text"]
    assert sorted(read("memory://door/*")) == ["another", "one text"]
    assert sorted(read("memory://door")) == ["another", "one text"]
    fetched = sorted(path.name for path in cache.rglob("*.*") if path.is_file())
    assert fetched == ["a.txt", "b.jsonl.xz"]
    files.pipe("/door/a.txt", b"a longer text\n")
    assert read("memory://door/a.txt") == ["a longer text"]
    with pytest.raises(UserError, match="no file is there"):
        read("memory://door/missing*")
    with pytest.raises(UserError, match="nosuch"):
        read("nosuch://place/a.txt")
    files.rm("/door", recursive=True)


def test_data_sets_are_read_with_labels_by_name(cache, tmp_path, monkeypatch) -> None:
    datasets = pytest.importorskip("datasets", reason="datasets is not installed")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    rows = datasets.Dataset.from_dict(
        {"text": ["good film", "bad film"], "label": [1, 0], "scores": [[1.0], [2.0]]},
        features=datasets.Features(
            {
                "text": datasets.Value("string"),
                "label": datasets.ClassLabel(names=["neg", "pos"]),
                "scores": datasets.List(datasets.Value("float32")),
            }
        ),
    )
    (tmp_path / "films").mkdir()
    rows.to_parquet(tmp_path / "films" / "train.parquet")
    name = f"hf:{tmp_path / 'films'}"
    assert read(name) == ["good film", "bad film"]
    (file,) = resolve([name])
    assert file.name == name
    records = [json.loads(line) for line in file.path.read_text(encoding="utf-8").splitlines()]
    assert records == [{"text": "good film", "label": "pos"}, {"text": "bad film", "label": "neg"}]
    with pytest.raises(UserError, match="cannot be loaded"):
        read(f"{name}:nothing")
