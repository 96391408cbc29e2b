"""Reading both directions at once, with gradients, gives what reading them in a row gives."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.language.tiny_models import make_model
from torch import Tensor

from elmo.bilm.model import BiLM, Randomness
from elmo.bilm.stack import StackOutput
from elmo.bilm.tokens import look_up
from elmo.contextual.groups import read_alike, read_in_order
from elmo.contextual.reading import read_layers
from elmo.text.batches import Batch, sentence_batch

WORDS = st.sampled_from(["the", "cat", "sat", "naïve", "雨", "unheard", "of"])
TEXTS = st.lists(st.lists(WORDS, max_size=7), min_size=1, max_size=4)
MODELS = {kind: make_model(kind).model for kind in ("words", "characters", "both")}
CPU = torch.device("cpu")


def one_after_the_other(model: BiLM, batch: Batch, lengths: list[int], seed: int | None) -> Tensor:
    """Both stacks with padding, in operations autograd knows, each output put by hand."""
    random = (None, None) if seed is None else Randomness.of(seed, 0, CPU)
    vectors = model.token_layer.compute(batch.words)
    width = model.config.width
    rows: list[Tensor] = []
    outputs: list[list[Tensor]] = []
    for stack, reading, generator in zip(model.directions, batch.readings, random, strict=True):
        tokens = look_up(vectors, reading.inputs)
        read: StackOutput = stack(tokens, None, reading.lengths, generator)
        outputs.append([tokens, *read.layers])
    for ahead, behind in zip(*outputs, strict=True):
        texts: list[Tensor] = []
        for text, length in enumerate(lengths):
            words = [
                torch.cat([ahead[word + 1, text], behind[length - word, text]])
                for word in range(length)
            ]
            padding = vectors.new_zeros(max(lengths) - length, 2 * width)
            texts.append(torch.cat([torch.stack(words), padding]) if words else padding)
        rows.append(torch.stack(texts))
    return torch.stack(rows)


def read(model: BiLM, texts: list[list[str]], seed: int | None, **options: Any) -> Tensor:
    batch = sentence_batch(texts, model.vocabulary, spelled=model.config.spelled)
    lengths = [len(text) for text in texts]
    random = None if seed is None else Randomness.of(seed, 0, CPU)
    window = max(lengths) + 1
    return read_layers(model, [batch], lengths, window, random=random, **options).layers


@given(
    TEXTS,
    st.sampled_from(list(MODELS)),
    st.sampled_from([None, 5]),
    st.sets(st.integers(0, 30), max_size=12),
)
@settings(max_examples=20)
def test_values_and_gradients(
    texts: list[list[str]], kind: str, seed: int | None, frozen: set[int]
) -> None:
    model = MODELS[kind]
    parameters = [*model.token_layer.parameters()]
    parameters += [one for stack in model.directions for one in stack.parameters()]
    for number, parameter in enumerate(parameters):
        parameter.requires_grad_(number not in frozen)
    lengths = [len(text) for text in texts]
    batch = sentence_batch(texts, model.vocabulary, spelled=model.config.spelled)
    expected = one_after_the_other(model, batch, lengths, seed)
    found = read(model, texts, seed)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)
    with torch.no_grad():
        torch.testing.assert_close(read(model, texts, seed), expected.detach(), rtol=0, atol=1e-12)
    trained = [one for one in parameters if one.requires_grad]
    if not trained or not max(lengths):
        return
    weight = torch.randn(found.shape, dtype=found.dtype)
    options: Any = {"allow_unused": True, "materialize_grads": True}
    mine = torch.autograd.grad(found, trained, weight, **options)
    plain = torch.autograd.grad(expected, trained, weight, **options)
    for one, other in zip(mine, plain, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-11)


def test_what_is_frozen_keeps_no_gradient() -> None:
    model = make_model().model
    model.backward_stack.requires_grad_(False)
    read(model, [["the", "cat"], ["sat"]], None).sum().backward()
    assert all(one.grad is None for one in model.backward_stack.parameters())
    assert all(one.grad is not None for one in model.forward_stack.parameters())


def test_in_single_precision() -> None:
    model = make_model().model
    texts = [["the", "cat", "sat", "on", "a", "mat"], ["雨"], ["dog", "sat"]]
    exact = torch.autograd.grad(
        read(model, texts, None).square().sum(), list(model.directions[0].parameters())
    )
    model.float().compute_dtype = torch.float32
    layers = read(model, texts, None)
    assert layers.dtype == torch.float32
    rough = torch.autograd.grad(layers.square().sum(), list(model.directions[0].parameters()))
    for one, other in zip(rough, exact, strict=True):
        assert (one - other).abs().max() < 1e-6 * other.abs().max() + 1e-6


@given(TEXTS, st.sampled_from([(0,), (1,), (2,), (2, 0)]), st.sampled_from([2, 4, 4096]))
@settings(max_examples=20)
def test_only_the_wanted_layers(texts: list[list[str]], wanted: tuple[int, ...], size: int) -> None:
    model = MODELS["words"]
    with torch.no_grad():
        for some, every in (
            (read_alike(model, texts, size, wanted=wanted), read_alike(model, texts, size)),
            (
                read_in_order(model, texts, size, 2, wanted=wanted),
                read_in_order(model, texts, size, 2),
            ),
        ):
            for one, other in zip(some, every, strict=True):
                expected = other.activations.layers[list(wanted)]
                torch.testing.assert_close(one.activations.layers, expected, rtol=0, atol=1e-12)


def test_what_is_above_the_wanted_layers_is_not_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    model = make_model().model

    def never(*_: Any) -> None:
        raise AssertionError("this layer was not wanted")

    for stack in model.directions:
        monkeypatch.setattr(stack.layer(1), "read", never)
    with torch.no_grad():
        assert read(model, [["the", "cat"]], None, wanted=(1,)).any()
        for stack in model.directions:
            monkeypatch.setattr(stack.layer(0), "read", never)
        assert read(model, [["the", "cat"]], None, wanted=(0,)).any()
