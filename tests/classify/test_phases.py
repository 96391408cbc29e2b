"""Lower layers of the biLM start to learn later, and more slowly, than those above them."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.classify.toy import WORDS, toy_config, toy_model
from torch import nn

from elmo.bilm.model import Randomness
from elmo.classify.config import FineTuningConfig, LearningConfig, NetworkConfig
from elmo.classify.network import ClassifierNetwork, TextLayers
from elmo.classify.own_words import own_vocabulary
from elmo.classify.phases import (
    Phase,
    build_optimizers,
    clip_gradients,
    fine_tuning_phase,
    network_phase,
    set_rates,
)
from elmo.classify.text_rows import TextRows
from elmo.contextual.mix_config import MixConfig

LOADED = toy_model()


def phase(**settings: float) -> Phase:
    own = own_vocabulary([WORDS], 1)
    network = ClassifierNetwork(toy_config().network, 3, 12, 2, len(own))
    learning = LearningConfig(text_rate=0.25, fine_tuning=FineTuningConfig(**settings))  # pyright: ignore
    return fine_tuning_phase(network, TextRows([["the", "cat"]], own), LOADED.model, learning)


def learning_parts(one: Phase) -> list[bool]:
    return [
        all(p.requires_grad for module in part.modules for p in module.parameters())
        for part in one.parts
    ]


def test_layers_wake_from_the_top() -> None:
    one = phase(unfreeze_epochs=0.5)
    optimizers = build_optimizers(one, LearningConfig(weight_decay=0.0))
    seen: list[list[bool]] = []
    for done in (0.0, 0.49, 0.5, 1.0):
        set_rates(one, optimizers, 0.1, done)
        seen.append(learning_parts(one))
    network_and_top = [True, True, True]
    assert seen == [
        [*network_and_top, False, False],
        [*network_and_top, False, False],
        [*network_and_top, True, False],
        [*network_and_top, True, True],
    ]
    top, token = one.parts[2].modules, one.parts[-1].modules
    assert top == tuple(stack.layers[1] for stack in LOADED.model.directions)
    assert token == (LOADED.model.token_layer,)


def test_rates_fall_with_depth_and_only_matrices_decay() -> None:
    one = phase(rate_decay=0.5, fine_tune_rate=LearningConfig().learning_rate / 2)
    dense, sparse = build_optimizers(one, LearningConfig(weight_decay=0.3))
    set_rates(one, [dense, sparse], 0.8, 0.0)
    rates = [group["lr"] for group in dense.param_groups]
    network, reader = [0.8, 0.8], [0.2, 0.2]
    assert rates == pytest.approx([*network, *reader, 0.4, 0.4, 0.2, 0.2, 0.1, 0.1])
    assert [group["lr"] for group in sparse.param_groups] == [0.8]
    for group in dense.param_groups:
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


def test_own_vectors_of_words_that_were_not_read_stand_still() -> None:
    network = ClassifierNetwork(NetworkConfig(own_words=4), 3, 2, 2, own_vocabulary=9)
    own = network.own_words
    assert own is not None
    before = own.weight.detach().clone()
    learning = LearningConfig(learning_rate=0.1, weight_decay=0.01)
    one = network_phase(network, _NoFeatures(), learning, 1)
    dense, sparse = build_optimizers(one, learning)
    loss = own(torch.tensor([3, 5, 3])).sum()
    loss.backward()
    sparse.step()
    changed = (own.weight.detach() != before).any(dim=1).nonzero().flatten()
    assert changed.tolist() == [3, 5]
    # The first step goes one rate along the sign of the gradient.
    torch.testing.assert_close(own.weight.detach()[[3, 5]], before[[3, 5]] - 0.1)
    assert id(own.weight) not in {
        id(one) for group in dense.param_groups for one in group["params"]
    }


@pytest.mark.parametrize("hidden", [0, 5])
def test_what_reads_a_text_and_a_learned_function_have_rates_of_their_own(hidden: int) -> None:
    config = NetworkConfig(mix=MixConfig(mix="function"), own_words=4, hidden=hidden)
    network = ClassifierNetwork(config, 3, 2, 2, own_vocabulary=9)
    learning = LearningConfig(learning_rate=0.1, function_rate=0.5, text_rate=0.2)
    one = network_phase(network, _NoFeatures(), learning, 1)
    optimizers = build_optimizers(one, learning)
    set_rates(one, optimizers, 0.1, 0.0)
    rates = {
        id(parameter): group["lr"]
        for optimizer in optimizers
        for group in optimizer.param_groups
        for parameter in group["params"]
    }
    reader = network.hidden if hidden else network.scores
    assert reader is not None
    expected = {id(parameter): 0.1 for parameter in network.parameters()}
    expected |= {id(parameter): 0.05 for parameter in network.mix.parameters()}
    expected |= {id(parameter): 0.02 for parameter in reader.parameters()}
    assert rates == pytest.approx(expected)


@given(st.floats(0.01, 10), st.integers(0, 100))
def test_gradients_are_clipped_as_torch_clips_dense_ones(longest: float, seed: int) -> None:
    random = torch.Generator().manual_seed(seed)
    ids = torch.randint(0, 6, (8,), generator=random)
    weight, other = (torch.randn(6, 3, generator=random) for _ in range(2))
    tables: list[nn.Embedding] = []
    for sparse in (True, False):
        table = nn.Embedding(6, 3, _weight=weight.clone(), sparse=sparse)
        linear = nn.Parameter(other.clone())
        (table(ids).square().sum() + linear.pow(3).sum()).backward()
        if sparse:
            clip_gradients([table.weight, linear], longest)
        else:
            nn.utils.clip_grad_norm_([table.weight, linear], longest)
        tables.append(table)
        assert linear.grad is not None
    first, second = (table.weight.grad for table in tables)
    assert first is not None
    torch.testing.assert_close(first.to_dense(), second)


class _NoFeatures:
    def read(self, rows: Sequence[int]) -> TextLayers:
        raise AssertionError("nothing is read here")
