"""What a run writes for those who watch it."""

from __future__ import annotations

import json
import re
import sys

import pytest

from elmo.errors import UserError
from elmo.training.reports import JsonLog, StepReport, TensorBoardLog


def step_report(step: int) -> StepReport:
    return StepReport(
        step=step, epoch=0, done=0.5, targets=10, loss_forward=1.0, loss_backward=2.0,
        learning_rate=0.1, tokens_per_second=5.0, seconds_left=1.0,
    )  # fmt: skip


def test_a_resumed_log_forgets_what_will_be_said_again_and_a_line_cut_short(tmp_path):
    path = tmp_path / "log.jsonl"
    log = JsonLog(path, 0)
    for step in (1, 2, 3):
        log(step_report(step))
    with path.open("a") as stream:
        stream.write('{"kind": "st')
    JsonLog(path, 2)(step_report(3))
    steps = [json.loads(line)["step"] for line in path.read_text().splitlines()]
    assert steps == [1, 2, 3]


def test_tensorboard_gets_the_losses(tmp_path):
    events = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    log = TensorBoardLog(tmp_path)
    log(step_report(4))
    log._writer.close()
    found = events.EventAccumulator(str(tmp_path))
    found.Reload()
    (event,) = found.Scalars("train/loss_backward")
    assert (event.step, event.value) == (4, 2.0)


def test_without_tensorboard_one_line_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    with pytest.raises(UserError, match=re.escape("pip install 'elmo[track]'")):
        TensorBoardLog(tmp_path)
