"""Settings say what is wrong with them, all at once."""

from __future__ import annotations

import pytest

from elmo.config import check, from_json, to_json
from elmo.errors import ConfigError
from elmo.static.config import SkipGramConfig, SvdConfig


@pytest.mark.parametrize("config", [SvdConfig(), SkipGramConfig()])
def test_defaults_are_sound_and_survive_json(config: SvdConfig | SkipGramConfig) -> None:
    check(config)
    assert from_json(type(config), to_json(config), "here") == config


def test_every_problem_of_counting_is_told() -> None:
    wrong = SvdConfig(
        window=0,
        dim=0,
        min_count=0,
        max_vocabulary=3,
        seed=-1,
        shift=0.5,
        context_smoothing=1.5,
        eigenvalue_power=-0.1,
        iterations=-1,
    )
    with pytest.raises(ConfigError) as caught:
        check(wrong)
    assert [problem.split(":")[0] for problem in caught.value.problems] == [
        "window",
        "dim",
        "min_count",
        "max_vocabulary",
        "seed",
        "shift",
        "context_smoothing",
        "eigenvalue_power",
        "iterations",
    ]


def test_every_problem_of_skip_gram_is_told() -> None:
    wrong = SkipGramConfig(
        seed=2**32, negatives=0, epochs=0, threads=0, learning_rate=0, subsample=1
    )
    with pytest.raises(ConfigError) as caught:
        check(wrong)
    assert [problem.split(":")[0] for problem in caught.value.problems] == [
        "seed",
        "negatives",
        "epochs",
        "threads",
        "learning_rate",
        "subsample",
    ]
