"""Two runs on one folder: the second is refused, unless the first is dead."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time

import pytest
from tests.faults.conftest import final_bytes, started, train
from tests.training.conftest import write_corpus

from elmo.errors import UserError


def test_a_dead_run_does_not_keep_others_out(tmp_path):
    write_corpus(tmp_path / "corpus.txt", documents=60)
    process = started(train, tmp_path)
    checkpoints = tmp_path / "run" / "checkpoints"
    while process.is_alive() and not list(checkpoints.glob("step-*")):
        time.sleep(0.01)
    with pytest.raises(UserError, match="another process is working here"):
        train(tmp_path)
    assert process.is_alive(), "the refused run disturbed the other one"
    process.kill()
    process.join()
    train(tmp_path)
    assert final_bytes(tmp_path / "run")


NAMESPACE = ["unshare", "--pid", "--fork", "--kill-child"]
"""Makes a process the first of its own PID namespace, as in a container."""


def can_unshare() -> bool:
    """Whether this user may make namespaces."""
    return (
        shutil.which("unshare") is not None
        and not subprocess.run([*NAMESPACE, "true"], capture_output=True, check=False).returncode
    )


@pytest.mark.skipif(not can_unshare(), reason="this user may not make PID namespaces")
def test_containers_with_equal_process_ids_share_a_cache(tmp_path):
    write_corpus(tmp_path / "corpus.txt", documents=60)
    small = ["--hidden=8", "--word-dim=8", "--epochs=1", "--min-count=1", "--threads=1", "--quiet"]
    runs = [tmp_path / name for name in ("first", "second", "third")]
    command = [sys.executable, "-m", "elmo", "pretrain", str(tmp_path / "corpus.txt"), *small]
    processes = [
        subprocess.Popen(
            [*NAMESPACE, *command, "--out", str(run), "--cache", str(tmp_path / "cache")],
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        )
        for run in runs
    ]  # fmt: skip
    for process in processes:
        told = process.communicate(timeout=300)[1]
        assert process.returncode == 0, told
    (corpus,) = (tmp_path / "cache" / "corpora").iterdir()  # no work folder is left
    assert (corpus / "train").is_dir()
    first, *others = map(final_bytes, runs)
    assert others == [first, first]
