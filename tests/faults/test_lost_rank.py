"""A killed process or machine of a torchrun run: a restart, and a model as good as ever."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.faults.conftest import SOAK
from tests.training.conftest import write_corpus
from tests.worlds import free_port

from elmo.model_folder import load_tensors
from elmo.training.loop import load

FLAGS = [
    "--min-count", "1", "--held-out-share", "0.1", "--word-dim", "8", "--hidden", "8",
    "--samples", "6", "--batch-tokens", "128", "--window", "32", "--epochs", "2",
    "--checkpoint-minutes", "0", "--threads", "1",
]  # fmt: skip
SECONDS = 300


def launch(folder: Path, *launcher: str) -> subprocess.Popen[bytes]:
    """torchrun, with a run in this folder."""
    command = ["pretrain", str(folder / "corpus.txt"), "--out", str(folder / "run"), *FLAGS]
    with (folder / "stderr").open("ab") as stderr:
        return subprocess.Popen(
            [sys.executable, "-m", "torch.distributed.run", *launcher, "-m", "elmo", *command],
            env={**os.environ, "ELMO_CACHE": str(folder / "cache"), "OMP_NUM_THREADS": "1"},
            stderr=stderr,
        )


def workers(launcher: int) -> dict[int, int]:
    """The processes that a launcher has started, by rank."""
    found: dict[int, int] = {}
    for child in Path(f"/proc/{launcher}/task/{launcher}/children").read_text().split():
        entries = Path(f"/proc/{child}/environ").read_bytes().split(b"\0")
        ranks = [int(one.removeprefix(b"RANK=")) for one in entries if one.startswith(b"RANK=")]
        if ranks:
            found[ranks[0]] = int(child)
    return found


def wait_for_checkpoint(process: subprocess.Popen[bytes], folder: Path) -> None:
    """Wait until there is something to go on from."""
    end = time.monotonic() + SECONDS
    while not list((folder / "run" / "checkpoints").glob("step-*")):
        assert process.poll() is None, (folder / "stderr").read_text()
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory) -> Path:
    """What a single process makes of the text."""
    folder = tmp_path_factory.mktemp("undisturbed")
    write_corpus(folder / "corpus.txt", documents=250)
    assert launch(folder, "--standalone", "--nproc-per-node", "1").wait(SECONDS) == 0
    return folder


def assert_as_good(folder: Path, whole: Path) -> None:
    mine, theirs = (load(one / "run" / "checkpoints") for one in (folder, whole))
    assert mine.position.finished
    assert (mine.position.step, mine.position.targets) == (
        theirs.position.step,
        theirs.position.targets,
    ), "something was trained twice or left out"
    assert mine.position.best_perplexity == pytest.approx(theirs.position.best_perplexity, rel=1e-3)
    final = load_tensors(whole / "run" / "model.safetensors")
    for name, tensor in load_tensors(folder / "run" / "model.safetensors").items():
        assert (tensor - final[name]).abs().max() < 1e-2, name


@pytest.mark.parametrize("rank", [0, 1] if SOAK else [0])
def test_a_killed_process_is_started_again(undisturbed, tmp_path, rank):
    write_corpus(tmp_path / "corpus.txt", documents=250)
    process = launch(tmp_path, "--standalone", "--nproc-per-node", "2", "--max-restarts", "2")
    wait_for_checkpoint(process, tmp_path)
    os.kill(workers(process.pid)[rank], signal.SIGKILL)
    assert process.wait(SECONDS) == 0, (tmp_path / "stderr").read_text()
    assert_as_good(tmp_path, undisturbed)


@pytest.mark.skipif(not SOAK, reason="waits for a lost machine to be noticed; see make soak")
def test_a_lost_machine_leaves_a_smaller_world(undisturbed, tmp_path):
    """Two launchers, as of two machines; one dies with all its processes."""
    write_corpus(tmp_path / "corpus.txt", documents=250)
    rendezvous = [
        "--nnodes", "1:2", "--nproc-per-node", "1", "--max-restarts", "3", "--rdzv-id", "test",
        "--rdzv-backend", "c10d", "--rdzv-endpoint", f"127.0.0.1:{free_port()}",
        "--rdzv-conf", "last_call_timeout=3",
    ]  # fmt: skip
    staying = launch(tmp_path, *rendezvous)
    time.sleep(1)
    leaving = launch(tmp_path, *rendezvous)
    wait_for_checkpoint(staying, tmp_path)
    lost = list(workers(leaving.pid).values())
    for number in (leaving.pid, *lost):
        os.kill(number, signal.SIGKILL)
    leaving.wait()
    assert staying.wait(SECONDS) == 0, (tmp_path / "stderr").read_text()
    assert_as_good(tmp_path, undisturbed)
