"""The central proofs: no direction sees what it must predict, and no text sees another.

All over the kinds of input, one to three layers, with and without skip connection and projection,
in double precision, so that "unchanged" means unchanged.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.bilm import numpy_bilm
from tests.bilm.numpy_bilm import array, lstm
from tests.bilm.numpy_bilm import stack as numpy_stack
from tests.tiny_models import make_model
from torch import Tensor

from elmo.bilm import model as module
from elmo.bilm.config import BiLMConfig, CharacterConfig, SoftmaxConfig
from elmo.bilm.lstm import LSTMLayer, LSTMState, Ragged
from elmo.bilm.model import (
    BiLM,
    BiLMState,
    LayerActivations,
    LSTMStack,
    Randomness,
    StackOutput,
    read_layers,
    read_paired,
    token_vectors,
    variational_dropout,
)
from elmo.bilm.tokens import look_up
from elmo.embed.embedder import read_alike, read_in_order
from elmo.text.batching import Batch, Rows, WordTable, make_batch, read, sentence_batch, whole_batch
from elmo.text.config import Batching
from elmo.text.corpus import Shards, ShardWriter
from elmo.text.vocabulary import BEGIN, END, SPECIAL_WORDS, Vocabulary

# Reading both directions at once, with gradients, gives what reading them in a row gives.


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


def read_reading(model: BiLM, texts: list[list[str]], seed: int | None, **options: Any) -> Tensor:
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
    found = read_reading(model, texts, seed)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)
    with torch.no_grad():
        torch.testing.assert_close(
            read_reading(model, texts, seed), expected.detach(), rtol=0, atol=1e-12
        )
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
    read_reading(model, [["the", "cat"], ["sat"]], None).sum().backward()
    assert all(one.grad is None for one in model.backward_stack.parameters())
    assert all(one.grad is not None for one in model.forward_stack.parameters())


def test_in_single_precision() -> None:
    model = make_model().model
    texts = [["the", "cat", "sat", "on", "a", "mat"], ["雨"], ["dog", "sat"]]
    exact = torch.autograd.grad(
        read_reading(model, texts, None).square().sum(), list(model.directions[0].parameters())
    )
    model.float().compute_dtype = torch.float32
    layers = read_reading(model, texts, None)
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
        assert read_reading(model, [["the", "cat"]], None, wanted=(1,)).any()
        for stack in model.directions:
            monkeypatch.setattr(stack.layer(0), "read", never)
        assert read_reading(model, [["the", "cat"]], None, wanted=(0,)).any()


# Layers on top of each other: skip connections, carried states, dropout that keeps its choice.


BATCH, STEPS, WIDTH = 3, 6, 4
LENGTHS = torch.tensor([6, 4, 1])


def build(*, layers: int, skip: bool, dropout: float = 0.0) -> LSTMStack:
    torch.manual_seed(layers)
    config = BiLMConfig(hidden=5, projection=WIDTH, layers=layers, skip=skip, dropout=dropout)
    return LSTMStack(config).double()


def inputs() -> Tensor:
    random = torch.Generator().manual_seed(1)
    return torch.randn(STEPS, BATCH, WIDTH, generator=random, dtype=torch.float64)


@pytest.mark.parametrize("layers", [1, 2, 3])
@pytest.mark.parametrize("skip", [False, True])
def test_values_of_each_layer(layers: int, skip: bool) -> None:
    direction = build(layers=layers, skip=skip)
    tokens = inputs()
    found = direction(tokens, None, LENGTHS)
    assert len(found.layers) == len(found.states) == layers
    for column, length in enumerate(LENGTHS.tolist()):
        expected = numpy_stack(direction, array(tokens[:length, column]))
        for layer, values in zip(found.layers, expected, strict=True):
            np.testing.assert_allclose(array(layer[:length, column]), values, atol=1e-12)


def test_the_skip_connection_leaves_the_recurrent_state_alone() -> None:
    direction = build(layers=2, skip=True)
    found = direction(inputs(), None, torch.full((BATCH,), STEPS))
    added = found.layers[0][-1]
    torch.testing.assert_close(found.states[1].output + added, found.layers[1][-1])
    assert added.abs().max() > 0.01


def test_reading_on_equals_reading_at_once() -> None:
    direction = build(layers=3, skip=True)
    tokens = inputs()
    whole = direction(tokens, None, torch.full((BATCH,), STEPS))
    first = direction(tokens[:2], None, torch.full((BATCH,), 2))
    second = direction(tokens[2:], first.states, torch.full((BATCH,), 4))
    for number in range(3):
        joined = torch.cat([first.layers[number], second.layers[number]])
        torch.testing.assert_close(joined, whole.layers[number])


def test_dropout_makes_one_choice_a_text() -> None:
    random = torch.Generator().manual_seed(0)
    ones = torch.ones(STEPS, 400, 50)
    dropped = variational_dropout(ones, 0.3, random)
    assert torch.equal(dropped, dropped[:1].expand_as(dropped))
    assert set(dropped.unique().tolist()) == {0.0, torch.tensor(1 / 0.7).item()}
    kept = dropped[0].ne(0).float()
    assert abs(kept.mean().item() - 0.7) < 4 * (0.3 * 0.7 / kept.numel()) ** 0.5
    # Each text and each feature for itself.
    assert kept.mean(dim=1).std() > 0.02
    assert kept.mean(dim=0).std() > 0.01


def test_without_randomness_nothing_is_dropped() -> None:
    values = inputs()
    assert variational_dropout(values, 0.5, None) is values
    assert variational_dropout(values, 0.0, torch.Generator()) is values


def test_dropout_falls_on_the_input_before_the_skip_adds_it() -> None:
    direction = build(layers=2, skip=True, dropout=0.5)
    tokens = inputs()
    full = torch.full((BATCH,), STEPS)
    found = direction(tokens, None, full, torch.Generator().manual_seed(4))
    random = torch.Generator().manual_seed(4)
    masks = [variational_dropout(torch.ones_like(tokens), 0.5, random) for _ in range(2)]
    first, second = direction.layers
    assert isinstance(first, LSTMLayer)
    assert isinstance(second, LSTMLayer)
    zeros = np.zeros(WIDTH), np.zeros(5)
    for column in range(BATCH):
        below, _, _ = lstm(first, array((tokens * masks[0])[:, column]), *zeros)
        dropped = below * array(masks[1][:, column])
        above, _, _ = lstm(second, dropped, *zeros)
        np.testing.assert_allclose(array(found.layers[0][:, column]), below, atol=1e-12)
        np.testing.assert_allclose(array(found.layers[1][:, column]), above + dropped, atol=1e-12)


@pytest.mark.parametrize("step", [1, 2, 3])
def test_a_part_of_a_batch_drops_what_it_drops_in_the_whole(step):
    values = torch.ones(2, 5, 6)
    whole = variational_dropout(values, 0.5, torch.Generator().manual_seed(3))
    for first in range(step):
        rows = Rows(first, step, 5)
        random = torch.Generator().manual_seed(3)
        part = variational_dropout(values[:, rows.places], 0.5, random, rows)
        assert torch.equal(part, whole[:, rows.places])
        assert len(rows) == part.shape[1]


@given(
    st.lists(st.integers(0, 5), min_size=1, max_size=4).filter(any),
    st.booleans(),
    st.sampled_from([None, 3]),
    st.integers(0, 50),
)
@settings(max_examples=30)
def test_without_padding_a_stack_reads_what_it_reads_with_it(
    lengths: list[int], skip: bool, seed_of_dropout: int | None, seed: int
) -> None:
    torch.manual_seed(seed)
    both = build(layers=2, skip=skip, dropout=0.4)
    vectors = torch.randn(7, WIDTH, dtype=torch.float64)
    places = torch.randint(0, 7, (max(lengths), len(lengths)))
    states = [
        LSTMState(torch.rand(len(lengths), WIDTH).double(), torch.rand(len(lengths), 5).double())
        for _ in range(2)
    ]
    generators = [
        None if seed_of_dropout is None else torch.Generator().manual_seed(seed_of_dropout)
        for _ in range(3)
    ]
    steps = torch.tensor(lengths)
    padded = both(vectors[places], states, steps, generators[0])
    ragged = Ragged.of(steps)
    flat = places[ragged.step, ragged.text]
    found = both.read_ragged(vectors, flat, ragged, states, generators[1])
    for one, other in zip(found.layers, padded.layers, strict=True):
        torch.testing.assert_close(one, other[ragged.step, ragged.text])
    for one, other in zip(found.states, padded.states, strict=True):
        torch.testing.assert_close(one.output, other.output)
        torch.testing.assert_close(one.cell, other.cell)
    lower = both.read_ragged(vectors, flat, ragged, states, generators[2], depth=1)
    assert len(lower.layers) == len(lower.states) == 1
    assert torch.equal(lower.layers[0], found.layers[0])


KNOWN = ("the", "cat", "sat", "on", "a", "mat", "naïve", "雨")
UNKNOWN = ("unheard", "of")
VOCABULARY = Vocabulary((*SPECIAL_WORDS, *KNOWN), (9, 9, 4, *range(30, 14, -2)))
EXACT = {"rtol": 0.0, "atol": 1e-12}

known_words = st.sampled_from(KNOWN)
any_words = st.sampled_from(KNOWN + UNKNOWN)
sentences = st.lists(any_words, max_size=7)
texts = st.lists(sentences, min_size=1, max_size=4)


def settings_of(
    kind: str = "words",
    *,
    layers: int = 2,
    skip: bool = True,
    projection: int | None = 3,
    softmax: SoftmaxConfig | None = None,
    dropout: float = 0.0,
) -> BiLMConfig:
    return BiLMConfig(
        input=kind,  # pyright: ignore
        word_dim=4,
        characters=CharacterConfig(char_dim=2, filters=((1, 2), (3, 3)), activation="tanh"),
        layers=layers,
        hidden=4,
        projection=projection,
        skip=skip,
        cell_clip=2.0,
        projection_clip=None if projection is None else 1.5,
        dropout=dropout,
        softmax=softmax or SoftmaxConfig(loss="full", tied=False),
    )


SOFTMAXES = [
    SoftmaxConfig(loss="full", tied=False),
    SoftmaxConfig(loss="sampled", samples=4, tied=False),
    SoftmaxConfig(loss="sampled", samples=4, shared_negatives=False, tied=False),
    SoftmaxConfig(loss="adaptive", cutoffs=(5, 8), tied=False),
]
configs = st.builds(
    settings_of,
    st.sampled_from(["words", "characters", "both"]),
    layers=st.integers(1, 3),
    skip=st.booleans(),
    projection=st.sampled_from([None, 3]),
    softmax=st.sampled_from(SOFTMAXES),
)
plain_configs = configs.filter(lambda config: config.softmax.loss == "full")


def build_model(config: BiLMConfig, seed: int = 0) -> BiLM:
    """A model whose every parameter, biases included, makes a difference."""
    torch.manual_seed(seed)
    model = BiLM(config, VOCABULARY).double()
    model.compute_dtype = torch.float64
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn(parameter.shape, dtype=torch.float64) * 0.3)
    return model


def batch_of(model: BiLM, *sentences: list[str]) -> Batch:
    return sentence_batch(sentences, VOCABULARY, spelled=model.config.spelled)


def whole_of(model: BiLM, *sentences: list[str]) -> Batch:
    return whole_batch(sentences, VOCABULARY, spelled=model.config.spelled)


def states(model: BiLM, sentence: list[str]) -> tuple[Tensor, Tensor]:
    """All layers of each direction for one sentence, (layers, steps, width) in reading order."""
    forward, backward = model.read(batch_of(model, sentence))
    return torch.stack(forward.layers)[:, :, 0], torch.stack(backward.layers)[:, :, 0]


def predictions(model: BiLM, sentence: list[str], place: int) -> list[Tensor]:
    """What each direction expects at a place, read off where training asks for that word."""
    batch = batch_of(model, sentence)
    found: list[Tensor] = []
    outputs = model.read(batch)
    for reading, output, number in zip(
        batch.readings, outputs, [place, len(sentence) - 1 - place], strict=True
    ):
        assert reading.targets[number] == VOCABULARY.id(sentence[place])
        top = output.layers[-1].flatten(0, 1)[reading.asked[number]]
        found.append(model.output.log_probabilities(top[None])[0])
    return found


def seen_as_different(model: BiLM, first: str, second: str) -> bool:
    vectors = numpy_bilm.tokens(model, [first, second])
    return bool(np.abs(vectors[0] - vectors[1]).max() > 1e-3)


# No direction sees what is still to come.


@given(configs, sentences, sentences, sentences)
def test_forward_states_do_not_depend_on_what_follows(
    config: BiLMConfig, before: list[str], after: list[str], instead: list[str]
) -> None:
    model = build_model(config)
    one, _ = states(model, before + after)
    other, _ = states(model, before + instead)
    steps = len(before) + 1
    torch.testing.assert_close(one[:, :steps], other[:, :steps], **EXACT)


@given(configs, sentences, sentences, sentences)
def test_backward_states_do_not_depend_on_what_precedes(
    config: BiLMConfig, before: list[str], after: list[str], instead: list[str]
) -> None:
    model = build_model(config)
    _, one = states(model, before + after)
    _, other = states(model, instead + after)
    steps = len(after) + 1
    torch.testing.assert_close(one[:, :steps], other[:, :steps], **EXACT)


@given(configs, sentences, any_words, any_words, sentences)
def test_a_prediction_does_not_depend_on_the_word_it_is_for(
    config: BiLMConfig, before: list[str], word: str, instead: str, after: list[str]
) -> None:
    model = build_model(config)
    found = predictions(model, [*before, word, *after], len(before))
    other = predictions(model, [*before, instead, *after], len(before))
    for one, changed in zip(found, other, strict=True):
        torch.testing.assert_close(one, changed, **EXACT)


@given(configs, sentences, known_words, known_words, sentences)
def test_states_and_predictions_do_depend_on_words_that_were_read(
    config: BiLMConfig, before: list[str], word: str, instead: str, after: list[str]
) -> None:
    model = build_model(config)
    assume(seen_as_different(model, word, instead))
    sentence, changed = [*before, word, *after], [*before, instead, *after]
    for one, other, read_before in zip(
        states(model, sentence), states(model, changed), [len(before), len(after)], strict=True
    ):
        differences = (one - other).abs().amax(dim=2)[:, read_before + 1 :]
        assert (differences > 1e-9).all()
    for place in range(len(sentence)):
        if place != len(before):
            one, other = predictions(model, sentence, place), predictions(model, changed, place)
            ahead, behind = (
                bool((p - q).abs().max() > 1e-9) for p, q in zip(one, other, strict=True)
            )
            assert (ahead, behind) == (place > len(before), place < len(before))


# No text sees another.


@given(plain_configs, texts)
@settings(max_examples=20)
def test_activations_against_an_independent_computation(
    config: BiLMConfig, batch: list[list[str]]
) -> None:
    model = build_model(config)
    found = model.activations(whole_of(model, *batch))
    assert found.lengths.tolist() == [len(sentence) for sentence in batch]
    assert found.layers.shape[:2] == (config.layers + 1, len(batch))
    for row, sentence in enumerate(batch):
        if sentence:
            expected = numpy_bilm.activations(model, sentence)
            values = found.layers[:, row, : len(sentence)].numpy()
            np.testing.assert_allclose(values, expected, atol=1e-12)


@given(configs, texts, st.randoms(use_true_random=False))
def test_activations_do_not_depend_on_batch_mates_order_or_padding(
    config: BiLMConfig, batch: list[list[str]], random: object
) -> None:
    model = build_model(config)
    together = model.activations(whole_of(model, *batch))
    order = list(range(len(batch)))
    random.shuffle(order)  # pyright: ignore
    shuffled = model.activations(whole_of(model, *(batch[place] for place in order)))
    for row, place in enumerate(order):
        alone = model.activations(whole_of(model, batch[place]))
        length = len(batch[place])
        torch.testing.assert_close(own(together, place, length), own(alone, 0, length), **EXACT)
        torch.testing.assert_close(own(shuffled, row, length), own(alone, 0, length), **EXACT)
    padding = ~together.mask
    assert together.layers[:, padding].eq(0).all()
    assert together.mask.sum() == sum(map(len, batch))


def own(found: LayerActivations, row: int, length: int) -> Tensor:
    return found.layers[:, row, :length]


@given(texts)
def test_activations_in_single_precision(batch: list[list[str]]) -> None:
    double = build_model(settings_of("both"))
    exact = double.activations(whole_of(double, *batch)).layers
    single = build_model(settings_of("both")).float()
    single.compute_dtype = torch.float32
    found = single.activations(whole_of(single, *batch)).layers
    assert found.dtype == torch.float32
    torch.testing.assert_close(found.double(), exact, rtol=0, atol=2e-6)


def test_activations_in_half_precision() -> None:
    model = build_model(settings_of("both")).float()
    model.compute_dtype = torch.float32
    batch = whole_of(model, ["the", "cat", "sat"], ["naïve", "雨"])
    exact = model.activations(batch).layers
    model.compute_dtype = torch.bfloat16
    found = model.activations(batch).layers
    assert found.dtype == torch.bfloat16
    torch.testing.assert_close(found.float(), exact, rtol=0, atol=0.05)


# The loss is what it says, and so is its gradient.


@pytest.mark.parametrize("kind", ["words", "characters", "both"])
def test_perplexity_against_rereading_every_prefix(kind: str) -> None:
    model = build_model(settings_of(kind))
    batch = [["the", "cat", "sat", "on", "unheard", "雨"], ["a"], [], ["naïve", "mat", "the"]]
    losses = model(batch_of(model, *batch))
    for loss, targets, direction, turned in [
        (losses.forward, losses.forward_targets, model.forward_stack, False),
        (losses.backward, losses.backward_targets, model.backward_stack, True),
    ]:
        chances: list[float] = []
        for sentence in batch:
            words = ["<S>", *sentence, "</S>"]
            words = words[::-1] if turned else words
            for place in range(1, len(words)):
                expected = numpy_bilm.next_word(model, direction, words[:place])
                chances.append(expected[VOCABULARY.id(words[place])])
        assert targets == len(chances) == 14
        perplexity = math.exp(loss.item() / targets)
        assert perplexity == pytest.approx(math.exp(-sum(chances) / len(chances)), rel=1e-10)


def test_the_mean_loss_weighs_both_directions_alike() -> None:
    model = build_model(settings_of())
    losses = model(batch_of(model, ["the", "cat"], ["a"]))
    expected = (losses.forward / 5 + losses.backward / 5) / 2
    torch.testing.assert_close(losses.mean, expected)


@pytest.mark.parametrize("kind", ["words", "characters", "both"])
@pytest.mark.parametrize("softmax", SOFTMAXES, ids=["full", "sampled", "own samples", "adaptive"])
def test_gradients_against_differences(kind: str, softmax: SoftmaxConfig) -> None:
    """Along random directions, parameter by parameter, dropout and samples held fixed."""
    model = build_model(settings_of(kind, softmax=softmax, dropout=0.3))
    batch = batch_of(model, ["the", "cat", "sat"], ["unheard", "雨"])
    check_gradients(model, batch)


def test_gradients_of_tied_weights_against_differences() -> None:
    softmax = SoftmaxConfig(loss="sampled", samples=4, tied=True)
    model = build_model(settings_of(projection=None, softmax=softmax))
    check_gradients(model, batch_of(model, ["the", "cat", "sat"], ["unheard", "雨"]))


def check_gradients(model: BiLM, batch: Batch) -> None:
    def loss() -> Tensor:
        return model(batch, random=Randomness.of(3, 4, CPU)).mean

    loss().backward()
    random = torch.Generator().manual_seed(0)
    moved = 0
    for parameter in model.parameters():
        assert parameter.grad is not None
        direction = torch.randn(parameter.shape, generator=random, dtype=torch.float64)
        if len(parameter) > 200:
            direction[0] = 0  # the character that stands for nothing is never trained
        values: list[float] = []
        with torch.no_grad():
            for step in (1e-5, -2e-5):
                parameter.add_(direction, alpha=step)
                values.append(loss().item())
            parameter.add_(direction, alpha=1e-5)
        slope = (values[0] - values[1]) / 2e-5
        found = (parameter.grad * direction).sum().item()
        assert found == pytest.approx(slope, rel=1e-5, abs=1e-8)
        moved += abs(found) > 1e-4
    assert moved > 0.8 * len(list(model.parameters()))


@pytest.mark.parametrize("softmax", SOFTMAXES, ids=["full", "sampled", "own samples", "adaptive"])
def test_a_window_that_asks_for_nothing_teaches_nothing(softmax: SoftmaxConfig) -> None:
    # Where a lane of a stream ends between two documents.
    model = build_model(settings_of(softmax=softmax))
    table = WordTable.of(VOCABULARY.words, VOCABULARY, spelled=False)
    batch = make_batch([np.array([END, BEGIN])], [np.array([BEGIN, END])], table, starts=False)
    assert batch.targets == 0
    losses = model(batch)
    losses.mean.backward()
    assert losses.mean == 0
    assert all(p.grad is None or p.grad.eq(0).all() for p in model.parameters())


def test_frozen_words_stay_while_the_rest_learns() -> None:
    config = settings_of("both")
    frozen = BiLMConfig(**{**vars(config), "freeze_words": True})
    model = build_model(frozen)
    model(batch_of(model, ["the", "cat"])).mean.backward()
    missing = [name for name, parameter in model.named_parameters() if parameter.grad is None]
    assert missing == ["token_layer.words.weight"]


# A text read in windows is the same text.


def long_texts(folder: Path, lengths: list[int]) -> tuple[Shards, WordTable]:
    random = np.random.default_rng(0)
    writer = ShardWriter(folder, 10**6)
    for length in lengths:
        writer.add([BEGIN, *random.integers(3, len(VOCABULARY), length).tolist(), END])
    writer.close()
    return Shards(folder), WordTable.of(VOCABULARY.words, VOCABULARY, spelled=True)


@pytest.mark.parametrize("window", [2, 3, 7, 50])
@pytest.mark.parametrize("kind", ["words", "characters"])
def test_reading_in_windows_equals_reading_at_once(tmp_path: Path, window: int, kind: str) -> None:
    model = build_model(settings_of(kind, layers=3))
    shards, table = long_texts(tmp_path, [31])
    (whole,) = read(shards, table, Batching(window=100, batch_tokens=100))
    expected = model.read(whole)
    windows: list[tuple[StackOutput, StackOutput]] = []
    state: BiLMState | None = None
    for batch in read(shards, table, Batching(window=window, batch_tokens=100)):
        windows.append(model.read(batch, None if batch.starts else state))
        state = BiLMState(windows[-1][0].states, windows[-1][1].states)
    assert len(windows) == math.ceil(32 / window)
    for direction in (0, 1):
        for layer in range(3):
            joined = torch.cat([found[direction].layers[layer] for found in windows])
            torch.testing.assert_close(joined, expected[direction].layers[layer], **EXACT)


def test_the_loss_of_long_and_short_texts_does_not_depend_on_the_window(tmp_path: Path) -> None:
    model = build_model(settings_of())
    shards, table = long_texts(tmp_path, [31, 17, 4, 12, 9])
    totals: list[list[float]] = []
    for window in (100, 10, 4):
        total = [0.0, 0.0]
        state: BiLMState | None = None
        for batch in read(shards, table, Batching(window=window, batch_tokens=120)):
            losses = model(batch, None if batch.starts else state)
            state = losses.state
            total[0] += losses.forward.item()
            total[1] += losses.backward.item()
        totals.append(total)
    assert totals[1] == pytest.approx(totals[0], rel=1e-12)
    assert totals[2] == pytest.approx(totals[0], rel=1e-12)


def test_a_carried_state_has_no_gradient_but_an_effect() -> None:
    model = build_model(settings_of())
    batch = batch_of(model, ["the", "cat"])
    first = model(batch)
    state = first.state
    assert not any(
        tensor.requires_grad
        for direction in state
        for layer in direction
        for tensor in (layer.output, layer.cell)
    )
    assert not torch.isclose(model(batch, state).forward, first.forward)
    assert not torch.isclose(model(batch, state).backward, first.backward)


# Chance is a function of seed and step.


def test_dropout_is_a_function_of_seed_and_step() -> None:
    model = build_model(settings_of(dropout=0.5))
    batch = batch_of(model, ["the", "cat", "sat"], ["a"])

    def loss(seed: int, step: int) -> tuple[float, float]:
        found = model(batch, random=Randomness.of(seed, step, CPU))
        return found.forward.item(), found.backward.item()

    torch.manual_seed(1)
    first = loss(7, 20)
    torch.manual_seed(2)
    assert loss(7, 20) == first
    others = [loss(7, 21), loss(8, 20), loss(7, 19)]
    assert len({first, *others}) == 4
    silent = model(batch)
    assert silent.forward.item() == model(batch).forward.item()
    assert silent.forward.item() != first[0]


def test_dropout_falls_on_inputs_and_output() -> None:
    model = build_model(settings_of(layers=1, dropout=0.5))
    sentence = ["the", "cat", "sat"]
    found = model(batch_of(model, sentence), random=Randomness.of(1, 2, CPU))
    chance = Randomness.of(1, 2, CPU).forward
    masks = [(torch.rand(3, generator=chance) >= 0.5).double().numpy() * 2 for _ in range(2)]
    vectors = numpy_bilm.tokens(model, ["<S>", *sentence]) * masks[0]
    top = numpy_bilm.stack(model.forward_stack, vectors)[-1] * masks[1]
    weight, bias = (numpy_bilm.array(p) for p in model.output.parameters())
    wanted = [*(VOCABULARY.id(word) for word in sentence), END]
    expected = -sum(
        numpy_bilm.log_softmax(weight @ state + bias)[target]
        for state, target in zip(top, wanted, strict=True)
    )
    assert found.forward.item() == pytest.approx(expected, rel=1e-10)


def test_training_leaves_the_global_source_of_chance_alone() -> None:
    softmax = SoftmaxConfig(loss="sampled", samples=4, tied=False)
    model = build_model(settings_of(dropout=0.5, softmax=softmax))
    before = torch.get_rng_state()
    model(batch_of(model, ["the", "cat"]), random=Randomness.of(1, 1, CPU)).mean.backward()
    assert torch.equal(torch.get_rng_state(), before)


def test_both_directions_draw_for_themselves() -> None:
    steps = [Randomness.of(5, step, CPU) for step in range(20)]
    drawn = [torch.rand(4, generator=one).tolist() for pair in steps for one in pair]
    assert len({tuple(values) for values in drawn}) == 40


# Words for themselves have the vectors of layer 0, in any portion.


@pytest.mark.parametrize("kind", ["words", "characters", "both"])
@pytest.mark.parametrize("portion", [1, 3, 1024])
def test_portions(kind: str, portion: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WORDS_AT_ONCE", portion)
    model = make_model(kind).model
    words = ["the", "雨", "unheard", "x" * 60, "<UNK>"]
    found = list(token_vectors(model, words))
    assert [len(one) for one in found][:-1] == [portion] * (len(found) - 1)
    wanted = numpy_bilm.tokens(model, words)
    np.testing.assert_allclose(np.concatenate(found), wanted, rtol=0, atol=2e-6)
    assert list(token_vectors(model, [])) == []


# Both directions read in one loop give what each gives alone.


HIDDEN, WORDS_paired = 5, 7


def random_states(layers: int, texts: int, width: int, *, given: bool) -> list[LSTMState] | None:
    if not given:
        return None
    return [LSTMState(torch.randn(texts, width), torch.randn(texts, HIDDEN)) for _ in range(layers)]


@given(
    lengths=st.lists(st.integers(0, 6), min_size=1, max_size=4).filter(any),
    layers=st.integers(1, 3),
    skip=st.booleans(),
    projection=st.sampled_from([None, 3]),
    clip=st.sampled_from([None, 0.1]),
    carries=st.booleans(),
    depth=st.sampled_from([None, 1]),
    seed=st.integers(0, 1000),
)
@settings(max_examples=60)
@torch.no_grad()
def test_as_two_stacks_read_one_after_the_other(
    lengths: list[int],
    layers: int,
    skip: bool,
    projection: int | None,
    clip: float | None,
    carries: bool,
    depth: int | None,
    seed: int,
) -> None:
    torch.manual_seed(seed)
    config = BiLMConfig(
        hidden=HIDDEN, projection=projection, layers=layers, skip=skip,
        cell_clip=clip, projection_clip=clip if projection else None,
    )  # fmt: skip
    ahead, behind = LSTMStack(config), LSTMStack(config)
    for weights in (*ahead.parameters(), *behind.parameters()):
        weights.normal_(std=0.5)
    vectors = torch.randn(WORDS_paired, config.width)
    ragged = Ragged.of(torch.tensor(lengths))
    rows = len(ragged.step)
    places = (torch.randint(0, WORDS_paired, (rows,)), torch.randint(0, WORDS_paired, (rows,)))
    states = (
        random_states(layers, len(lengths), config.width, given=carries),
        random_states(layers, len(lengths), config.width, given=carries),
    )
    found = read_paired((ahead, behind), vectors, places, ragged, states, depth)
    for one, stack, place, start in zip(found, (ahead, behind), places, states, strict=True):
        wanted = stack.read_ragged(vectors, place, ragged, start, depth=depth)
        torch.testing.assert_close(one.layers, wanted.layers)
        for mine, other in zip(one.states, wanted.states, strict=True):
            torch.testing.assert_close(mine.output, other.output)
            torch.testing.assert_close(mine.cell, other.cell)
