"""The seconds of all sessions add up, those of a failed one too."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from elmo.study.timed import SECONDS, timed


def test_sessions_add_up(tmp_path: Path) -> None:
    def stopped() -> None:
        with timed(tmp_path):
            time.sleep(0.05)
            raise RuntimeError("stopped")

    with pytest.raises(RuntimeError, match="stopped"):
        stopped()
    with timed(tmp_path) as seconds:
        assert 0.05 <= seconds() < 5


def test_a_damaged_file_counts_as_nothing(tmp_path: Path) -> None:
    (tmp_path / SECONDS).write_text("{")
    with timed(tmp_path) as seconds:
        assert seconds() < 5
