"""Presets are settings without contradictions, and they are those of the command line."""

from __future__ import annotations

import pytest

from elmo.cli.main import parse
from elmo.config import check, from_json, to_json
from elmo.training.config import PRESETS, PretrainConfig
from elmo.training.estimate import count_parameters


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_is_sound_and_survives_json(name):
    check(PRESETS[name])
    assert from_json(PretrainConfig, to_json(PRESETS[name]), name) == PRESETS[name]


@pytest.mark.parametrize("name", PRESETS)
def test_the_command_line_knows_all_presets(name):
    _, args = parse(["pretrain", "ag_news", "--preset", name])
    assert args.config == PRESETS[name]


def test_the_papers_preset_has_the_size_of_the_published_model():
    """93,600,864 parameters without the softmax, which was never published."""
    config = PRESETS["paper"].model
    words = 1000
    softmax = words * config.width + words
    assert count_parameters(config, words) - softmax == 93_600_864
