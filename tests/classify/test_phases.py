"""Lower layers of the biLM start to learn later, and more slowly, than those above them."""

from __future__ import annotations

import pytest
import torch
from tests.classify.toy import WORDS, toy_config, toy_model

from elmo.bilm.model import Randomness
from elmo.classify.config import FineTuningConfig, LearningConfig
from elmo.classify.network import ClassifierNetwork
from elmo.classify.own_words import own_vocabulary
from elmo.classify.phases import Phase, build_optimizer, fine_tuning_phase, set_rates
from elmo.classify.text_rows import TextRows

LOADED = toy_model()


def phase(**settings: float) -> Phase:
    own = own_vocabulary([WORDS], 1)
    network = ClassifierNetwork(toy_config().network, 3, 12, 2, len(own))
    learning = LearningConfig(fine_tuning=FineTuningConfig(**settings))  # pyright: ignore
    return fine_tuning_phase(network, TextRows([["the", "cat"]], own), LOADED.model, learning)


def learning_parts(one: Phase) -> list[bool]:
    return [
        all(p.requires_grad for module in part.modules for p in module.parameters())
        for part in one.parts
    ]


def test_layers_wake_from_the_top() -> None:
    one = phase(unfreeze_epochs=0.5)
    optimizer = build_optimizer(one, 0.0)
    seen: list[list[bool]] = []
    for done in (0.0, 0.49, 0.5, 1.0):
        set_rates(one, optimizer, 0.1, done)
        seen.append(learning_parts(one))
    network_and_top = [True, True]
    assert seen == [
        [*network_and_top, False, False],
        [*network_and_top, False, False],
        [*network_and_top, True, False],
        [*network_and_top, True, True],
    ]
    top, token = one.parts[1].modules, one.parts[-1].modules
    assert top == tuple(stack.layers[1] for stack in LOADED.model.directions)
    assert token == (LOADED.model.token_layer,)


def test_rates_fall_with_depth_and_only_matrices_decay() -> None:
    one = phase(rate_decay=0.5)
    optimizer = build_optimizer(one, 0.3)
    set_rates(one, optimizer, 0.8, 0.0)
    rates = [group["lr"] for group in optimizer.param_groups]
    assert rates == pytest.approx([0.8, 0.8, 0.8, 0.8, 0.4, 0.4, 0.2, 0.2])
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            is_matrix = parameter.dim() > 1 and parameter.shape[0] not in (13, 3 + len(WORDS))
            assert (group["weight_decay"] > 0) == is_matrix


def test_the_language_model_loss_joins_in_training_only() -> None:
    random = Randomness.of(0, 0, torch.device("cpu"))
    assert phase(language_weight=0.0).read([0], random).language_loss is None
    one = phase(language_weight=0.5)
    assert one.read([0], None).language_loss is None
    loss = one.read([0], random).language_loss
    assert loss is not None
    assert float(loss.detach()) > 0
