"""Embedding with Ray: on a local cluster of two workers, row by row what one process writes."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from tests.training.conftest import write_corpus

from elmo.bilm.config import BiLMConfig
from elmo.bilm.model import BiLM
from elmo.cli.main import main
from elmo.embed import ray as embed_ray
from elmo.embed.config import EncodeConfig
from elmo.embed.embedder import Embedder
from elmo.embed.files import embed_text
from elmo.embed.ray import (
    embed_with_ray,
    find_files,
    is_address,
    read_file,
    refuse_existing,
)
from elmo.errors import UserError
from elmo.language_model import LanguageModel
from elmo.text.config import ReadOptions
from elmo.text.tokenizer import TokenizerConfig

# Files wherever they are: found, fetched, read; what is not there is told.


fsspec = pytest.importorskip("fsspec", reason="needs the extra `ray`")


@pytest.fixture
def memory():
    """A file system in memory, as far away as any other for our purposes."""
    files = fsspec.filesystem("memory")
    files.pipe("/texts/b.txt", b"second\n")
    files.pipe("/texts/a.csv", b"id,text\n1,first\n")
    yield files
    files.rm("/texts", recursive=True)


def texts(*sources: str) -> list[str]:
    return [text for file in find_files(sources) for text in read_file(file, ReadOptions())]


def test_folders_patterns_and_files_at_addresses(memory, tmp_path):
    assert texts("memory://texts") == ["first", "second"]
    assert texts("memory://texts/*.txt") == ["second"]
    (tmp_path / "here.txt").write_text("local\n")
    assert texts("memory://texts/b.txt", str(tmp_path / "here.txt")) == ["second", "local"]


def test_what_is_wrong_is_told_with_the_address(memory):
    with pytest.raises(UserError, match="no file is there"):
        find_files(["memory://texts/none.txt"])
    with pytest.raises(UserError, match="nonsense"):
        find_files(["nonsense://x"])
    memory.pipe("/texts/bad.txt", b"\xff\xff\n")
    with pytest.raises(UserError, match="memory://"):
        texts("memory:///texts/bad.txt")


def test_what_is_there_is_not_overwritten(memory, tmp_path):
    refuse_existing("memory://texts/new.parquet")
    refuse_existing(str(tmp_path / "new.parquet"))
    for taken in ("memory://texts/b.txt", str(tmp_path)):
        with pytest.raises(UserError, match="exists already"):
            refuse_existing(taken)


def test_addresses_are_told_from_paths():
    assert is_address("s3://bucket/x.txt")
    assert not is_address("folder/x.txt")


ray = pytest.importorskip("ray", reason="needs the extra `ray`")
parquet = pytest.importorskip("pyarrow.parquet")
pytestmark = pytest.mark.filterwarnings("ignore")  # Ray's own, at import and at exit


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[None]:
    """Two workers on this machine."""
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()


@pytest.fixture(scope="module")
def embedder(vocabulary) -> Embedder:
    torch.manual_seed(0)
    model = BiLM(BiLMConfig(word_dim=4, hidden=4), vocabulary)
    return Embedder(LanguageModel(model, TokenizerConfig()))


@pytest.fixture
def sources(tmp_path) -> list[str]:
    """Several files of several kinds, and blank lines among the texts."""
    write_corpus(tmp_path / "a.txt", documents=50)
    (tmp_path / "b.txt").write_text("\none text\n\n   \nanother , with the cat\n")
    (tmp_path / "c.csv").write_text('id,text\n1,"the cat, ""sat"""\n2,\n3,a mat\n')
    return [str(tmp_path / name) for name in ("c.csv", "a.txt", "b.txt")]


def rows(path: Path) -> list[dict[str, object]]:
    return parquet.read_table(path).sort_by("id").to_pylist()


@pytest.mark.parametrize(
    "config",
    [EncodeConfig(), EncodeConfig(output="tokens", layer="all", initial_state="warm")],
    ids=["pooled", "tokens"],
)
def test_the_rows_are_those_of_one_process(embedder, sources, tmp_path, monkeypatch, config):
    monkeypatch.setattr(embed_ray, "TEXTS_PER_BLOCK", 8)
    written = embed_with_ray(embedder, sources, tmp_path / "ray.parquet", config, workers=2)
    embed_text(embedder, sources, tmp_path / "local.parquet", config)
    mine, theirs = rows(tmp_path / "ray.parquet"), rows(tmp_path / "local.parquet")
    assert written.texts == len(mine) == len(theirs) == 51 + 2 + 2
    assert len(list((tmp_path / "ray.parquet").glob("*.parquet"))) > 1, "all came from one block"
    for one, other in zip(mine, theirs, strict=True):
        assert (one["id"], one["text"], one["tokens"]) == (
            other["id"],
            other["text"],
            other["tokens"],
        )
        torch.testing.assert_close(torch.tensor(one["vector"]), torch.tensor(other["vector"]))


def test_the_blocks_of_a_lost_worker_are_done_again(embedder, sources, tmp_path, monkeypatch):
    monkeypatch.setattr(embed_ray, "TEXTS_PER_BLOCK", 8)
    died = tmp_path / "died"

    def deadly(text: str) -> list[str]:
        if "another" in text and not died.exists():
            died.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return text.split()

    loaded = LanguageModel(embedder.model, TokenizerConfig(tokenizer="custom"), {}, deadly)
    embed_with_ray(Embedder(loaded), sources, tmp_path / "ray.parquet", workers=2)
    assert died.exists(), "no worker was lost"
    embed_text(Embedder(loaded), sources, tmp_path / "local.parquet")
    mine, theirs = rows(tmp_path / "ray.parquet"), rows(tmp_path / "local.parquet")
    assert [(row["id"], row["text"]) for row in mine] == [
        (row["id"], row["text"]) for row in theirs
    ]
    for one, other in zip(mine, theirs, strict=True):
        torch.testing.assert_close(torch.tensor(one["vector"]), torch.tensor(other["vector"]))


def test_addresses_are_read_and_written(embedder, sources, tmp_path):
    addresses = [f"file://{source}" for source in sources]
    out = f"file://{tmp_path / 'there.parquet'}"
    embed_with_ray(embedder, addresses, out, workers=1)
    embed_text(embedder, sources, tmp_path / "local.parquet")
    mine, theirs = rows(tmp_path / "there.parquet"), rows(tmp_path / "local.parquet")
    assert [row["text"] for row in mine] == [row["text"] for row in theirs]
    with pytest.raises(UserError, match="exists already"):
        embed_with_ray(embedder, addresses, out)


def test_mistakes_are_told_and_leave_nothing(embedder, tmp_path):
    (tmp_path / "bad.txt").write_bytes(b"fine\n\xff\xfe\n")
    with pytest.raises(UserError, match=r"bad\.txt"):
        embed_with_ray(embedder, str(tmp_path / "bad.txt"), tmp_path / "out.parquet")
    assert [path.name for path in tmp_path.iterdir()] == ["bad.txt"]
    with pytest.raises(UserError, match="cannot be divided"):
        embed_with_ray(
            embedder, str(tmp_path / "bad.txt"), tmp_path / "x", EncodeConfig(initial_state="carry")
        )


def test_the_command_wants_parquet(capsys, tmp_path):
    (tmp_path / "a.txt").write_text("the cat\n")
    given = ["embed", str(tmp_path / "a.txt"), "--engine", "ray"]
    assert main([*given, "--out", str(tmp_path / "x.npz")]) == 2
    assert "Parquet" in capsys.readouterr().err
