"""Parameters counted from settings are those of the model; time and memory follow from them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from elmo.bilm.config import BiLMConfig, CharacterConfig, SoftmaxConfig
from elmo.bilm.model import BiLM
from elmo.text.config import Batching
from elmo.text.vocabulary import SPECIAL_WORDS, Vocabulary
from elmo.training import estimate as estimate_module
from elmo.training.config import PretrainConfig, TrainingConfig
from elmo.training.estimate import (
    activations_bytes,
    estimate,
    measure_speed,
    weights_bytes,
)

SMALL = BiLMConfig(word_dim=12, hidden=12)
FILTERS = CharacterConfig(char_dim=4, filters=((1, 3), (3, 5)), highways=2)
UNTIED = SoftmaxConfig(tied=False)
ADAPTIVE = SoftmaxConfig(loss="adaptive", cutoffs=(10, 30, 1000), tied=False)

CONFIGS = {
    "words": SMALL,
    "full": replace(SMALL, softmax=SoftmaxConfig(loss="full")),
    "untied": replace(SMALL, softmax=UNTIED, word_dim=7),
    "projected": replace(SMALL, hidden=20, projection=12, layers=3),
    "characters": replace(SMALL, input="characters", characters=FILTERS, softmax=UNTIED),
    "no highway": replace(
        SMALL, input="characters", characters=replace(FILTERS, highways=0), softmax=UNTIED
    ),
    "both": replace(SMALL, input="both", characters=FILTERS),
    "adaptive": replace(SMALL, hidden=40, softmax=ADAPTIVE),
    "frozen": replace(SMALL, freeze_words=True, softmax=UNTIED),
    "no softmax": replace(SMALL, softmax=SoftmaxConfig(loss="none", tied=False)),
}


def vocabulary(size: int) -> Vocabulary:
    words = (*SPECIAL_WORDS, *(f"w{place}" for place in range(size - 3)))
    return Vocabulary(words, tuple(range(2 * size, size, -1)))


def test_memory_of_weights_is_four_bytes_for_each_copy() -> None:
    config = PretrainConfig(model=replace(SMALL, softmax=UNTIED))

    def bytes_of(config: PretrainConfig) -> int:
        return weights_bytes(config, BiLM(config.model, vocabulary(50)))

    parameters = sum(p.numel() for p in BiLM(config.model, vocabulary(50)).parameters())
    output = 50 * 12 + 50
    # Weights, gradients and two moments; the output's gradient once more a direction, and scaled.
    assert bytes_of(config) == 4 * (4 * parameters + 4 * output)
    sgd = replace(config, training=TrainingConfig(optimizer="sgd"))
    assert bytes_of(config) - bytes_of(sgd) == 4 * parameters
    frozen = replace(config, model=replace(config.model, freeze_words=True))
    assert bytes_of(config) - bytes_of(frozen) == 4 * 3 * 50 * 12


def test_memory_of_a_batch_grows_with_it() -> None:
    config = PretrainConfig(model=SMALL, batching=Batching(batch_tokens=4096))
    doubled = replace(config, batching=Batching(batch_tokens=8192))
    assert activations_bytes(doubled) == pytest.approx(2 * activations_bytes(config), rel=0.01)
    spelled = replace(config, model=replace(SMALL, input="both"))
    assert activations_bytes(spelled) > activations_bytes(config)


def test_time_follows_from_the_speed(monkeypatch: pytest.MonkeyPatch) -> None:
    def measured(config: PretrainConfig, vocabulary: int, length: int) -> float:
        return vocabulary + length

    monkeypatch.setattr(estimate_module, "measure_speed", measured)
    config = PretrainConfig(model=SMALL, training=TrainingConfig(epochs=3))
    found = estimate(config, vocabulary=20, targets=1000, length=5)
    assert (found.targets, found.tokens_per_second, found.seconds) == (3000, 25, 120)
    parts = found.weights_bytes + found.activations_bytes + found.runtime_bytes
    assert found.memory_bytes == parts


@pytest.mark.parametrize("batching", ["documents", "stream"])
@pytest.mark.parametrize("name", ["both", "adaptive"])
def test_speed_is_measured_in_the_time_allowed(name: str, batching: str) -> None:
    config = PretrainConfig(
        model=CONFIGS[name],
        batching=Batching(batching=batching, batch_tokens=64, window=16),  # pyright: ignore
    )
    assert measure_speed(config, 60, 10, seconds=0.05) > 0


def test_a_larger_model_is_slower() -> None:
    small = PretrainConfig(model=SMALL, batching=Batching(batch_tokens=512))
    large = replace(small, model=BiLMConfig(word_dim=256, hidden=256))
    assert measure_speed(small, 60, 10, seconds=0.2) > measure_speed(large, 60, 10, seconds=0.2)
