"""Damaged checkpoints: named, passed over, and the run ends as if nothing had happened."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.faults.conftest import SOAK, final_bytes, train
from tests.training.conftest import write_corpus

from elmo.errors import UserError

FILES = ("model.safetensors", "training.safetensors", "progress.json")


def flip(content: bytes, chance: random.Random) -> bytes:
    changed = bytearray(content)
    changed[chance.randrange(len(changed))] ^= 1 << chance.randrange(8)
    return bytes(changed)


def cut(content: bytes, chance: random.Random) -> bytes:
    return content[: chance.randrange(len(content))]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("undisturbed")
    write_corpus(folder / "corpus.txt", documents=30)
    train(folder)
    return folder


@pytest.mark.parametrize("seed", range(10 if SOAK else 2))
@pytest.mark.parametrize("harm", [flip, cut])
@pytest.mark.parametrize("both", [False, True])
def test_a_damaged_checkpoint_is_passed_over(
    undisturbed: Path,
    tmp_path: Path,
    caplog,
    seed: int,
    harm: Callable[[bytes, random.Random], bytes],
    both: bool,
):
    """With both checkpoints damaged, the run is refused rather than started over."""
    shutil.copytree(undisturbed, tmp_path, dirs_exist_ok=True)
    chance = random.Random(seed)
    checkpoints = sorted((tmp_path / "run" / "checkpoints").glob("step-*"), reverse=True)
    for checkpoint in checkpoints[: 2 if both else 1]:
        path = checkpoint / chance.choice(FILES)
        harmed = harm(path.read_bytes(), chance)
        path.write_bytes(harmed)
    if both:
        before = final_bytes(tmp_path / "run")
        with pytest.raises(UserError, match=r"no checkpoint can be read .* --fresh"):
            train(tmp_path)
        assert final_bytes(tmp_path / "run") == before
        return
    train(tmp_path)
    assert "skipping a damaged checkpoint" in caplog.text
    # A flipped checksum accuses the file that it belongs to, but never another checkpoint.
    assert str(path.parent) in caplog.text
    assert final_bytes(tmp_path / "run") == final_bytes(undisturbed / "run")
