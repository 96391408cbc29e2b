"""What a study computes is checked before it begins."""

from __future__ import annotations

from typing import Any

import pytest

from elmo.config import check, from_json, to_json
from elmo.errors import ConfigError
from elmo.study.config import PRESETS, StudyConfig


@pytest.mark.parametrize("name", sorted(PRESETS))
def test_presets_are_sound_and_survive_json(name: str) -> None:
    check(PRESETS[name])
    assert from_json(StudyConfig, to_json(PRESETS[name]), name) == PRESETS[name]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"seeds": ()}, "seeds: expected one or more"),
        ({"seeds": (1, 1)}, "each once"),
        ({"seeds": (-1,)}, "expected numbers from 0"),
        ({"windows": (0,)}, "windows: expected positive"),
        ({"samples": (5, 5)}, "samples: expected positive numbers, each once"),
        ({"epochs": 0}, "epochs: expected at least 1"),
        ({"draws": -1}, "draws: expected at least 0"),
        ({"test_share": 1.0}, "test_share: expected 0.0001 to below 1"),
    ],
)
def test_what_makes_no_sense_is_named(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        check(StudyConfig(**settings))
