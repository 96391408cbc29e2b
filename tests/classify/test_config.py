"""Settings of a classifier say all that is wrong with them at once."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmo.classify.config import ClassifierConfig, FineTuningConfig, LearningConfig, NetworkConfig
from elmo.config import check, from_json, to_json
from elmo.embed.config import MixConfig
from elmo.errors import ConfigError


def test_every_problem_at_once() -> None:
    config = ClassifierConfig(
        network=NetworkConfig(
            mix=MixConfig(mix_dropout=2.0), pooling="mean+sum", dropout=1.0, elmo_at_output=True,
            own_words=-1, max_words=0,
        ),
        learning=LearningConfig(
            epochs=0, clip=-1.0, learning_rate=0.0, patience=0, warmup=2.0, development_share=1.0,
            fine_tuning=FineTuningConfig(fine_tune_rate=0.0, rate_decay=0.0, bilm_dropout=1.0),
        ),
    )  # fmt: skip
    with pytest.raises(ConfigError) as caught:
        check(config)
    named = {problem.partition(":")[0] for problem in caught.value.problems}
    assert named == {
        "mix_dropout", "pooling", "dropout", "elmo_at_output", "own_words", "max_words", "epochs",
        "clip", "learning_rate", "patience", "warmup", "development_share", "fine_tune_rate",
        "rate_decay", "bilm_dropout",
    }  # fmt: skip


def test_defaults_are_sound_and_survive_json() -> None:
    config = ClassifierConfig()
    check(config)
    assert from_json(ClassifierConfig, to_json(config), "config") == config


@given(st.integers(1, 10_000), st.integers(1, 300))
def test_few_texts_are_read_often_enough_for_200_steps_and_no_more(texts: int, batch: int) -> None:
    def steps(epochs: int) -> int:
        return epochs * len(range(0, texts, batch))

    epochs = LearningConfig(batch_texts=batch).epochs_for(texts)
    assert epochs >= 3
    assert steps(epochs) >= 200
    assert epochs == 3 or steps(epochs - 1) < 200


@given(st.integers(1, 10_000), st.integers(1, 9))
def test_texts_are_read_as_often_as_the_user_says(texts: int, epochs: int) -> None:
    assert LearningConfig(epochs=epochs).epochs_for(texts) == epochs
