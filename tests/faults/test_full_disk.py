"""A full disk: a clear error, the last good state intact, and on it goes when there is space."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from tests.faults.conftest import SETTINGS, final_bytes
from tests.training.conftest import stop_after, write_corpus

from elmo.embed.embedder import Embedder
from elmo.embed.files import embed_text
from elmo.errors import UserError
from elmo.training.loop import load
from elmo.training.pretrain import pretrain, resume

SIZE = 8 << 20


@dataclass(frozen=True)
class SmallDisk:
    """A file system of a few megabytes."""

    path: Path

    def fill(self, leave: int = 0) -> None:
        """Leave only so many bytes."""
        free = shutil.disk_usage(self.path).free
        (self.path / "filler").write_bytes(b"x" * max(0, free - leave))

    def free(self) -> None:
        """Make space again."""
        (self.path / "filler").unlink()


@pytest.fixture
def disk(tmp_path) -> Iterator[SmallDisk]:
    path = tmp_path / "disk"
    path.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", str(path)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("a small file system can be mounted by root only")
    yield SmallDisk(path)
    subprocess.run(["umount", str(path)], check=True)


@pytest.mark.parametrize("leave", [0, 3000])
def test_a_checkpoint_that_does_not_fit(disk, tmp_path, monkeypatch, leave):
    corpus = write_corpus(tmp_path / "corpus.txt", documents=30)
    around = {"cache": tmp_path / "cache"}
    pretrain([str(corpus)], tmp_path / "whole", SETTINGS, **around)
    run = disk.path / "run"
    with monkeypatch.context() as patch:
        patch.setattr("elmo.training.pretrain.stop_requested", stop_after(5))
        pretrain([str(corpus)], run, SETTINGS, **around)
    before = load(run / "checkpoints").position
    disk.fill(leave)
    with pytest.raises(UserError, match="the disk is full; free some space"):
        resume(run, **around)
    assert load(run / "checkpoints").position.step >= before.step
    assert not list((run / "checkpoints").glob(".*.partial")), "space is lost to a failed write"
    disk.free()
    assert resume(run, **around).finished
    assert final_bytes(run) == final_bytes(tmp_path / "whole")


def test_a_corpus_that_does_not_fit(disk, tmp_path):
    corpus = write_corpus(tmp_path / "corpus.txt", documents=3000)
    around = {"cache": disk.path / "cache"}
    disk.fill(leave=20_000)
    with pytest.raises(UserError, match="the disk is full; free some space"):
        pretrain([str(corpus)], tmp_path / "run", SETTINGS, **around)
    assert not (tmp_path / "run").exists()
    assert not list((disk.path / "cache" / "corpora").iterdir()), "half a corpus was left"
    disk.free()
    short = {"cache": disk.path / "cache", "on_report": stop_at_once}
    with pytest.raises(KeyboardInterrupt):
        pretrain([str(corpus)], tmp_path / "run", SETTINGS, **short)
    assert len(list((disk.path / "cache" / "corpora").iterdir())) == 1


def stop_at_once(_: object) -> None:
    """The text was prepared: that is all that is asked here."""
    raise KeyboardInterrupt


def test_vectors_that_do_not_fit(disk, tmp_path):
    corpus = write_corpus(tmp_path / "corpus.txt", documents=40)
    around = {"cache": tmp_path / "cache"}
    pretrain([str(corpus)], tmp_path / "run", SETTINGS, **around)
    embedder = Embedder.from_pretrained(tmp_path / "run")
    texts = write_corpus(tmp_path / "texts.txt", documents=400, seed=5)
    embed_text(embedder, str(texts), tmp_path / "whole.npz")
    out = disk.path / "vectors.npz"
    disk.fill(leave=40_000)
    with pytest.raises(UserError, match="the disk is full; free some space"):
        embed_text(embedder, str(texts), out)
    assert not out.exists()
    disk.free()
    embed_text(embedder, str(texts), out)
    with np.load(out) as mine, np.load(tmp_path / "whole.npz") as whole:
        assert np.array_equal(mine["vectors"], whole["vectors"])
