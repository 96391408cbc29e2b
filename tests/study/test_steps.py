"""A step is known for the same inputs only, and damage means that it is done again."""

from __future__ import annotations

from pathlib import Path

import pytest

from elmo.study.results import Spread
from elmo.study.steps import Steps, inputs_key

RESULT = Spread(mean=0.5, deviation=0.1, low=0.4, high=0.6)


def test_what_was_kept_is_known_for_the_same_inputs(tmp_path: Path) -> None:
    steps = Steps(tmp_path / "steps")
    assert steps.known("one", {"a": 1}, Spread) is None
    steps.keep("one", {"a": 1, "b": [2, None]}, RESULT)
    assert steps.known("one", {"b": [2, None], "a": 1}, Spread) == RESULT
    assert steps.known("one", {"a": 2, "b": [2, None]}, Spread) is None
    assert steps.known("other", {"a": 1, "b": [2, None]}, Spread) is None


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"inputs": 1}', '{"inputs": "KEY"}', "null"])
def test_a_damaged_step_is_unknown(tmp_path: Path, damage: str) -> None:
    steps = Steps(tmp_path)
    steps.path("one").write_text(damage.replace("KEY", inputs_key({})))
    assert steps.known("one", {}, Spread) is None
