"""The training of a classifier under real signals, by the command as a user gives it."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.classify.test_training import write_toy
from tests.training.test_pretrain import wait_for_checkpoints

from elmo.files import sha256

SETTINGS = [
    "--epochs=3", "--fine-tune-epochs=3", "--batch-texts=4", "--task-dim=4", "--task-min-count=1",
    "--hidden=8", "--development-share=0.2", "--threads=1", "--checkpoint-minutes=0",
]  # fmt: skip


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tables and a biLM, and in `whole` what a training gives that nothing disturbs."""
    folder = tmp_path_factory.mktemp("undisturbed")
    write_toy(folder)
    assert ended(start(folder, folder / "whole")).code == 0
    return folder


def start(folder: Path, out: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "elmo", "classify", "train", str(folder / "train.csv")]
    return subprocess.Popen(
        [*command, "--model", str(folder / "bilm"), "--out", str(out), *SETTINGS],
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


class End(NamedTuple):
    """How a process ended."""

    code: int
    told: str


def ended(process: subprocess.Popen[str]) -> End:
    told = process.communicate(timeout=300)[1]
    return End(process.returncode, told)


def weights(folder: Path) -> list[str]:
    return [sha256(folder / "classifier.safetensors"), sha256(folder / "bilm/model.safetensors")]


def test_kill_9_again_and_again_changes_nothing(undisturbed: Path, tmp_path: Path) -> None:
    for kill in range(2):
        process = start(undisturbed, tmp_path / "out")
        wait_for_checkpoints(process, tmp_path / "out.unfinished", 5 + 10 * kill)
        process.kill()
        assert ended(process).code == -signal.SIGKILL, "it was over before it could be killed"
        assert not (tmp_path / "out").exists()
    end = ended(start(undisturbed, tmp_path / "out"))
    assert end.code == 0
    assert "resuming in epoch" in end.told
    assert weights(tmp_path / "out") == weights(undisturbed / "whole")
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGUSR1])
def test_a_signal_says_how_to_go_on(
    undisturbed: Path, tmp_path: Path, number: signal.Signals
) -> None:
    process = start(undisturbed, tmp_path / "out")
    wait_for_checkpoints(process, tmp_path / "out.unfinished", 3)
    process.send_signal(number)
    end = ended(process)
    assert end.code == 130
    assert "the same command resumes" in end.told
    assert ended(start(undisturbed, tmp_path / "out")).code == 0
    assert weights(tmp_path / "out") == weights(undisturbed / "whole")
