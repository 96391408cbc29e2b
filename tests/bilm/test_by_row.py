"""Gradients of word vectors by row are those that whole matrices have."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.bilm.test_model import CPU, VOCABULARY, configs, settings_of, texts
from torch import Tensor

from elmo.bilm.config import BiLMConfig, SoftmaxConfig
from elmo.bilm.model import BiLM, Randomness
from elmo.text.batching import pack_texts

tied = st.builds(
    settings_of,
    projection=st.just(4),
    softmax=st.builds(
        SoftmaxConfig,
        loss=st.sampled_from(["full", "sampled"]),
        samples=st.just(4),
        tied=st.just(True),
    ),
)


def gradients(model: BiLM, sentences: list[list[str]], seed: int) -> dict[str, Tensor]:
    model.zero_grad()
    batch = pack_texts(sentences, VOCABULARY, spelled=model.config.spelled)
    for step in (0, 1):  # a batch may be read in parts, whose gradients add up
        model.loss(batch, random=Randomness.of(seed, step, CPU)).mean.backward()
    return {name: one.grad for name, one in model.named_parameters() if one.grad is not None}


@given(st.one_of(configs, tied), texts, st.integers(0, 99))
def test_as_whole_matrices(config: BiLMConfig, sentences: list[list[str]], seed: int) -> None:
    torch.manual_seed(seed)
    model = BiLM(config, VOCABULARY).double()
    wanted = gradients(model, sentences, seed)
    with model.gradients_by_row():
        gradients(model, sentences, seed)
    for parameter in model.word_parameters:
        if parameter.grad is not None:
            parameter.grad = parameter.grad.to_dense()  # as the training loop does
    for name, one in model.named_parameters():
        assert (one.grad is None) == (name not in wanted)
        if one.grad is not None:
            torch.testing.assert_close(one.grad, wanted[name], rtol=0, atol=1e-12)


def test_only_what_is_asked_for_by_row_is_sparse() -> None:
    torch.manual_seed(0)
    softmax = SoftmaxConfig(loss="sampled", samples=4, tied=True)
    model = BiLM(settings_of(projection=4, softmax=softmax), VOCABULARY)
    with model.gradients_by_row():
        assert gradients(model, [["cat"]], 0)["token_layer.words.weight"].is_sparse
    assert not gradients(model, [["cat"]], 0)["token_layer.words.weight"].is_sparse
