"""Two runs on one folder: the second is refused, unless the first is dead."""

from __future__ import annotations

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
