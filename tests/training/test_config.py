"""Presets are settings without contradictions, and they are those of the command line."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmo.cli.main import parse
from elmo.config import check, from_json, to_json
from elmo.model_folder import parameter_count
from elmo.training.config import PRESETS, PretrainConfig, TrainingConfig, learning_rate
from elmo.training.estimate import model_on_paper


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
    assert parameter_count(model_on_paper(config, words)) - softmax == 93_600_864


# Learning rates.


FRACTIONS = st.floats(0, 1)


@given(
    FRACTIONS, st.sampled_from(["plateau", "one_cycle", "cosine", "constant"]), st.floats(0, 0.9)
)
def test_the_rate_is_positive_and_never_above_its_peak(done, schedule, warmup):
    config = TrainingConfig(learning_rate=0.5, schedule=schedule, warmup=warmup)
    rate = learning_rate(config, done)
    assert 0 <= rate <= 0.5 * (1 + 1e-12)
    if schedule != "cosine" or done < 1:
        assert rate > 0


def test_the_schedules_at_points_worked_out_by_hand():
    half = {"learning_rate": 1.0, "warmup": 0.2}
    assert learning_rate(TrainingConfig(schedule="constant", **half), 0.1) == pytest.approx(0.5)
    assert learning_rate(TrainingConfig(schedule="constant", **half), 0.7) == 1.0
    # After the warm-up, a quarter of a wave is cos(45°).
    cosine = learning_rate(TrainingConfig(schedule="cosine", **half), 0.2 + 0.8 / 4)
    assert cosine == pytest.approx((1 + math.cos(math.pi / 4)) / 2)
    one_cycle = TrainingConfig(schedule="one_cycle", **half)
    assert learning_rate(one_cycle, 0.0) == pytest.approx(0.04)
    assert learning_rate(one_cycle, 0.2) == pytest.approx(1.0)
    assert learning_rate(one_cycle, 1.0) == pytest.approx(1e-3)

    plateau = TrainingConfig(schedule="plateau", **half)
    rates = {0.0: 0.04, 0.1: 0.52, 0.2: 1.0, 0.6: 1.0, 0.8: 0.5, 0.9: 0.25, 1.0: 1e-3}
    for done, rate in rates.items():
        assert learning_rate(plateau, done) == pytest.approx(rate)


def test_the_rate_follows_from_optimizer_and_schedule_where_none_is_given():
    assert TrainingConfig(optimizer="adamw", schedule="plateau").peak_rate == 0.008
    assert TrainingConfig(optimizer="adamw", schedule="one_cycle").peak_rate == 0.004
    assert TrainingConfig(optimizer="adagrad", schedule="plateau").peak_rate == 0.2
    assert TrainingConfig(learning_rate=0.5, schedule="plateau").peak_rate == 0.5


@given(FRACTIONS, FRACTIONS)
def test_after_the_warm_up_the_rate_only_falls(first, second):
    early, late = sorted((0.1 + 0.9 * first, 0.1 + 0.9 * second))
    for schedule in ("plateau", "one_cycle", "cosine"):
        config = TrainingConfig(schedule=schedule, warmup=0.1)
        assert learning_rate(config, early) >= learning_rate(config, late)
