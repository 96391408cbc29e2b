"""Settings of a classifier say all that is wrong with them at once."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmo.classify.config import (
    PARTS,
    ClassifierConfig,
    FineTuningConfig,
    LearningConfig,
    NetworkConfig,
)
from elmo.config import check, from_json, to_json
from elmo.embed.config import MixConfig
from elmo.errors import ConfigError


def test_every_problem_at_once() -> None:
    config = ClassifierConfig(
        network=NetworkConfig(
            mix=MixConfig(mix_dropout=2.0), pooling="mean+sum", dropout=1.0, elmo_at_output=True,
            task_dim=-1, max_words=0,
        ),
        learning=LearningConfig(
            epochs=0, clip=-1.0, learning_rate=0.0, patience=0, warmup=2.0, development_share=1.0,
            fine_tuning=FineTuningConfig(fine_tune_rate=0.0, rate_decay=0.0, bilm_dropout=1.0),
        ),
    )  # fmt: skip
    with pytest.raises(ConfigError) as caught:
        check(config)
    named = {problem.partition(":")[0].rpartition(".")[2] for problem in caught.value.problems}
    assert named == {
        "mix_dropout", "pooling", "dropout", "elmo_at_output", "task_dim", "max_words", "epochs",
        "clip", "learning_rate", "patience", "warmup", "development_share", "fine_tune_rate",
        "rate_decay", "bilm_dropout",
    }  # fmt: skip


def test_defaults_are_sound_and_survive_json() -> None:
    config = ClassifierConfig()
    check(config)
    assert from_json(ClassifierConfig, to_json(config), "config") == config


@pytest.mark.parametrize(
    ("config", "parts"),
    [
        (ClassifierConfig(), ("ngrams", "characters", "elmo")),
        (ClassifierConfig(learning=LearningConfig(seed=3)), ("ngrams", "characters", "elmo")),
        (ClassifierConfig(parts="elmo"), ("elmo",)),
        (
            ClassifierConfig(network=NetworkConfig(hidden=8)),
            ("ngrams", "characters", "elmo", "network"),
        ),
        (
            ClassifierConfig(
                learning=LearningConfig(fine_tuning=FineTuningConfig(fine_tune_epochs=1))
            ),
            ("ngrams", "characters", "network"),
        ),
    ],
)
def test_settings_of_the_network_bring_it_in(
    config: ClassifierConfig, parts: tuple[str, ...]
) -> None:
    check(config)
    assert config.resolved_parts() == parts
    with_words = config.resolved_parts(companions=True)
    if config.parts is None:
        assert with_words == (*parts[:2], "words", *parts[2:])
    else:
        assert with_words == parts


@pytest.mark.parametrize("parts", ["", "ngrams+bert", "elmo+elmo"])
def test_unknown_parts_are_named(parts: str) -> None:
    known = ", ".join(PARTS)
    with pytest.raises(ConfigError, match=f"parts: expected {known}"):
        check(ClassifierConfig(parts=parts))


def test_a_biLM_that_learns_has_no_elmo_part() -> None:
    tuned = LearningConfig(fine_tuning=FineTuningConfig(fine_tune_epochs=1))
    with pytest.raises(ConfigError, match="a biLM that does not change"):
        check(ClassifierConfig(parts="elmo+network", learning=tuned))


@pytest.mark.parametrize("rate", [float("nan"), 0.0, -1.0])
def test_a_rate_is_a_positive_number(rate: float) -> None:
    with pytest.raises(ConfigError, match="learning_rate"):
        check(ClassifierConfig(learning=LearningConfig(learning_rate=rate)))


def test_an_absurd_size_is_refused_before_memory_is_asked_for() -> None:
    with pytest.raises(ConfigError, match="hidden"):
        check(ClassifierConfig(network=NetworkConfig(hidden=10**9)))


@given(st.integers(1, 10_000), st.integers(1, 9))
def test_texts_are_read_as_often_as_the_user_says(texts: int, epochs: int) -> None:
    assert LearningConfig(epochs=epochs).epochs_for(texts) == epochs
