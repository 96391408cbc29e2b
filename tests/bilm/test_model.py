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
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from tests.bilm import numpy_bilm
from tests.bilm.numpy_bilm import array, lstm
from tests.bilm.numpy_bilm import stack as numpy_stack
from tests.tiny_models import make_model
from torch import Tensor

from elmo.bilm import model as module
from elmo.bilm.config import BiLMConfig, CharacterConfig, SoftmaxConfig
from elmo.bilm.lstm import LSTMLayer, LSTMStack, LSTMState, variational_dropout
from elmo.bilm.model import (
    BiLM,
    BiLMState,
    LayerOutputs,
    Randomness,
    token_vectors,
)
from elmo.errors import UserError
from elmo.text.batching import (
    Batch,
    Group,
    Layout,
    Rows,
    WordTable,
    pack_texts,
    pack_window,
    read,
)
from elmo.text.config import Batching
from elmo.text.corpus import Shards, ShardWriter
from elmo.text.vocabulary import END, SPECIAL_WORDS, START, Shard, Vocabulary

# Reading both directions at once, with gradients, gives what reading them in a row gives.


WORDS = st.sampled_from(["the", "cat", "sat", "naïve", "雨", "unheard", "of"])
TEXTS = st.lists(st.lists(WORDS, max_size=7), min_size=1, max_size=4)
MODELS = {kind: make_model(kind).model for kind in ("words", "characters", "both")}
CPU = torch.device("cpu")


def one_after_the_other(model: BiLM, batch: Batch, seed: int | None) -> Tensor:
    """Both stacks in a row, in operations that autograd knows, each output put by hand."""
    random = (None, None) if seed is None else Randomness.of(seed, 0, CPU)
    vectors = model.token_layer.compute(batch.words)
    layout = batch.layout
    outputs: list[list[Tensor]] = []
    for stack, inputs, generator in zip(model.directions, batch.inputs, random, strict=True):
        layers, _ = stack(vectors, inputs, layout, None, generator)
        outputs.append([vectors[inputs], *layers])
    token = {
        (text, step): number
        for number, (text, step) in enumerate(
            zip(layout.text.tolist(), layout.step.tolist(), strict=True)
        )
    }
    found: list[Tensor] = []
    for ahead, behind in zip(*outputs, strict=True):
        padded = vectors.new_zeros(layout.texts, max(batch.lengths), 2 * model.config.width)
        for text, length in enumerate(batch.lengths):
            for word in range(length):
                both = ahead[token[text, word + 1]], behind[token[text, length - word]]
                padded[text, word] = torch.cat(both)
        found.append(padded)
    return torch.stack(found)


def read_layers(model: BiLM, texts: list[list[str]], seed: int | None, **options: Any) -> Tensor:
    batch = pack_texts(texts, model.vocabulary, spelled=model.spelled)
    random = None if seed is None else Randomness.of(seed, 0, CPU)
    return model.layers(batch, random=random, **options).padded()[0]


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
    batch = pack_texts(texts, model.vocabulary, spelled=model.spelled)
    expected = one_after_the_other(model, batch, seed)
    found = read_layers(model, texts, seed)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)
    with torch.no_grad():
        torch.testing.assert_close(
            read_layers(model, texts, seed), expected.detach(), rtol=0, atol=1e-12
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
    read_layers(model, [["the", "cat"], ["sat"]], None).sum().backward()
    assert all(one.grad is None for one in model.backward_stack.parameters())
    assert all(one.grad is not None for one in model.forward_stack.parameters())


def test_in_single_precision() -> None:
    model = make_model().model
    texts = [["the", "cat", "sat", "on", "a", "mat"], ["雨"], ["dog", "sat"]]
    exact = torch.autograd.grad(
        read_layers(model, texts, None).square().sum(), list(model.directions[0].parameters())
    )
    model.float().compute_dtype = torch.float32
    layers = read_layers(model, texts, None)
    assert layers.dtype == torch.float32
    rough = torch.autograd.grad(layers.square().sum(), list(model.directions[0].parameters()))
    for one, other in zip(rough, exact, strict=True):
        assert (one - other).abs().max() < 1e-6 * other.abs().max() + 1e-6


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("texts", [1, 2, 6])
@pytest.mark.parametrize("clip", [None, 0.5])
def test_autocast_changes_nothing(threads: int, texts: int, clip: float | None) -> None:
    """Which dtype is computed in is set by `compute_dtype` alone."""
    config = BiLMConfig(
        input="both", word_dim=4, hidden=4, cell_clip=clip,
        softmax=SoftmaxConfig(loss="full", tied=False),
        characters=CharacterConfig(char_dim=3, filters=((1, 2), (3, 3))),
    )  # fmt: skip
    model = build_model(config).float()
    model.compute_dtype = torch.float32
    batch = batch_of(model, *[["the", "cat", "sat"], ["雨"], ["dog"]][:texts] * (1 + texts // 6))

    def results() -> list[Tensor]:
        model.zero_grad()
        with torch.no_grad():
            found = [model.layers(batch).words(), model.loss(batch).mean]
        loss = model.loss(batch).mean + model.layers(batch).words().square().sum()
        with torch.autocast("cpu", enabled=False):  # as torch advises
            loss.backward()
        return [*found, loss, *(p.grad for p in model.parameters() if p.grad is not None)]

    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        expected = results()
        with torch.autocast("cpu"):
            found = results()
    finally:
        torch.set_num_threads(before)
    assert len(found) > 8
    for mine, other in zip(found, expected, strict=True):
        assert torch.equal(mine, other)


@given(TEXTS, st.integers(0, 2), st.sampled_from([None, [0], [1], [1, 0]]))
@settings(max_examples=20)
@torch.no_grad()
def test_only_some_layers(texts: list[list[str]], upto: int, wanted: list[int] | None) -> None:
    model = MODELS["words"]
    batch = pack_texts(texts, model.vocabulary, spelled=False)
    every, some = model.layers(batch), model.layers(batch, upto=upto)
    assert len(some.forward) == len(some.state.forward) == upto
    layers = [layer for layer in wanted or range(1 + upto) if layer <= upto]
    assume(layers)
    expected = every.words()[layers]
    torch.testing.assert_close(some.words(layers), expected, rtol=0, atol=1e-12)


def test_what_is_above_the_wanted_layers_is_not_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    model = make_model().model

    def never(*_: Any) -> None:
        raise AssertionError("this layer was not wanted")

    for stack in model.directions:
        monkeypatch.setattr(stack.layer(1), "forward", never)
    with torch.no_grad():
        assert read_layers(model, [["the", "cat"]] * 5, None, upto=1).any()
        for stack in model.directions:
            monkeypatch.setattr(stack.layer(0), "forward", never)
        assert read_layers(model, [["the", "cat"]] * 5, None, upto=0).any()


def test_windows_have_no_words() -> None:
    model = MODELS["words"]
    table = WordTable.of(VOCABULARY.words, VOCABULARY, spelled=False)
    shard = Shard(np.array([START, 3, 4, 5, END], np.uint32), np.array([5]))
    batch = pack_window(shard, Group(0, np.array([0]), np.array([5])), table, 2, 1)
    assert batch is not None
    with pytest.raises(AssertionError, match="expected whole texts"):
        model.layers(batch).words()


# Layers on top of each other: skip connections, carried states, dropout that keeps its choice.


BATCH, STEPS, WIDTH = 3, 6, 4
LAYOUT = Layout.of(np.array([6, 4, 1]))
FULL = Layout.of(np.array([STEPS] * BATCH))


def build(*, layers: int, skip: bool, skip_tokens: bool = False, dropout: float = 0.0) -> LSTMStack:
    torch.manual_seed(layers)
    config = BiLMConfig(
        hidden=5, projection=WIDTH, layers=layers, skip=skip, skip_tokens=skip_tokens,
        dropout=dropout,
    )  # fmt: skip
    return LSTMStack(config).double()


def tokens_of(layout: Layout) -> tuple[Tensor, Tensor]:
    """Vectors of seven words, and which of them each token is."""
    random = torch.Generator().manual_seed(1)
    vectors = torch.randn(7, WIDTH, generator=random, dtype=torch.float64)
    return vectors, torch.randint(0, 7, layout.text.shape, generator=random)


@pytest.mark.parametrize("layers", [1, 2, 3])
@pytest.mark.parametrize(("skip", "skip_tokens"), [(False, False), (True, False), (True, True)])
def test_values_of_each_layer(layers: int, skip: bool, skip_tokens: bool) -> None:
    direction = build(layers=layers, skip=skip, skip_tokens=skip_tokens)
    assert direction.first_skip == (0 if skip_tokens else 1 if skip else layers)
    vectors, index = tokens_of(LAYOUT)
    outputs, states = direction(vectors, index, LAYOUT)
    assert len(outputs) == len(states) == layers
    for text in range(BATCH):
        mine = LAYOUT.text == text
        expected = numpy_stack(direction, array(vectors[index[mine]]))
        for layer, values in zip(outputs, expected, strict=True):
            np.testing.assert_allclose(array(layer[mine]), values, atol=1e-12)


def test_the_skip_connection_leaves_the_recurrent_state_alone() -> None:
    direction = build(layers=2, skip=True)
    outputs, states = direction(*tokens_of(FULL), FULL)
    added = outputs[0][-BATCH:]
    torch.testing.assert_close(states[1].output + added, outputs[1][-BATCH:])
    assert added.abs().max() > 0.01


def test_token_vectors_reach_the_first_output_only_if_asked_for() -> None:
    with_tokens = build(layers=2, skip=True, skip_tokens=True)
    without = build(layers=2, skip=True)
    vectors, index = tokens_of(LAYOUT)
    lowest = with_tokens(vectors, index, LAYOUT)[0][0] - without(vectors, index, LAYOUT)[0][0]
    torch.testing.assert_close(lowest, vectors[index])


def test_reading_on_equals_reading_at_once() -> None:
    direction = build(layers=3, skip=True)
    vectors, index = tokens_of(FULL)
    whole, _ = direction(vectors, index, FULL)
    first, states = direction(vectors, index[: 2 * BATCH], Layout.of(np.array([2] * BATCH)))
    second, _ = direction(vectors, index[2 * BATCH :], Layout.of(np.array([4] * BATCH)), states)
    for number in range(3):
        torch.testing.assert_close(torch.cat([first[number], second[number]]), whole[number])


def test_states_are_in_the_order_of_the_texts() -> None:
    direction, layout = build(layers=2, skip=False), Layout.of(np.array([1, 4, 0, 2]))
    vectors, index = tokens_of(layout)
    starts = tuple(
        LSTMState(torch.rand(4, WIDTH).double(), torch.rand(4, 5).double()) for _ in range(2)
    )
    outputs, ends = direction(vectors, index, layout, starts)
    for text, length in enumerate([1, 4, 0, 2]):
        start = tuple(state.select(slice(text, text + 1)) for state in starts)
        if not length:
            expected = start
        else:
            alone = Layout.of(np.array([length]))
            mine = layout.text == text
            found, expected = direction(vectors, index[mine], alone, start)
            torch.testing.assert_close(outputs[1][mine], found[1])
        for end, other in zip(ends, expected, strict=True):
            torch.testing.assert_close(tuple(end.select(slice(text, text + 1))), tuple(other))


def test_dropout_makes_one_choice_per_text() -> None:
    random = torch.Generator().manual_seed(0)
    layout = Layout.of(np.array([STEPS] * 400))
    dropped = variational_dropout(torch.ones(STEPS * 400, 50), 0.3, random, layout)
    dropped = dropped.view(STEPS, 400, 50)
    assert torch.equal(dropped, dropped[:1].expand_as(dropped))
    assert set(dropped.unique().tolist()) == {0.0, torch.tensor(1 / 0.7).item()}
    kept = dropped[0].ne(0).float()
    assert abs(kept.mean().item() - 0.7) < 4 * (0.3 * 0.7 / kept.numel()) ** 0.5
    # Each text and each feature for itself.
    assert kept.mean(dim=1).std() > 0.02
    assert kept.mean(dim=0).std() > 0.01


def test_without_randomness_nothing_is_dropped() -> None:
    values = torch.ones(3, 4)
    assert variational_dropout(values, 0.5, None, LAYOUT) is values
    assert variational_dropout(values, 0.0, torch.Generator(), LAYOUT) is values


def test_dropout_falls_on_the_input_before_the_skip_adds_it() -> None:
    direction = build(layers=2, skip=True, dropout=0.5)
    vectors, index = tokens_of(LAYOUT)
    outputs, _ = direction(vectors, index, LAYOUT, None, torch.Generator().manual_seed(4))
    random = torch.Generator().manual_seed(4)
    masks = [(torch.rand(BATCH, WIDTH, generator=random) >= 0.5).double() * 2 for _ in range(2)]
    first, second = direction.layers
    assert isinstance(first, LSTMLayer)
    assert isinstance(second, LSTMLayer)
    zeros = np.zeros(WIDTH), np.zeros(5)
    for text in range(BATCH):
        mine = LAYOUT.text == text
        below, _, _ = lstm(first, array(vectors[index[mine]] * masks[0][text]), *zeros)
        dropped = below * array(masks[1][text])
        above, _, _ = lstm(second, dropped, *zeros)
        np.testing.assert_allclose(array(outputs[0][mine]), below, atol=1e-12)
        np.testing.assert_allclose(array(outputs[1][mine]), above + dropped, atol=1e-12)


@pytest.mark.parametrize("step", [1, 2, 3])
def test_a_part_of_a_batch_drops_what_it_drops_in_the_whole(step):
    lengths = np.array([2, 5, 3, 5, 1])
    layout = Layout.of(lengths)
    values = torch.ones(len(layout.text), 6)
    whole = variational_dropout(values, 0.5, torch.Generator().manual_seed(3), layout)
    for first in range(step):
        rows = Rows(first, step, 5)
        mine = Layout.of(lengths[rows.indices])
        random = torch.Generator().manual_seed(3)
        part = variational_dropout(torch.ones(len(mine.text), 6), 0.5, random, mine, rows)
        assert len(rows) == mine.texts
        for text, row in enumerate(range(5)[rows.indices]):
            assert torch.equal(part[mine.text == text], whole[layout.text == row])


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
    skip_tokens: bool = False,
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
        skip_tokens=skip_tokens,
        cell_clip=2.0,
        projection_clip=None if projection is None else 1.5,
        dropout=dropout,
        softmax=softmax or SoftmaxConfig(loss="full", tied=False),
    )


SOFTMAXES = [
    SoftmaxConfig(loss="full", tied=False),
    SoftmaxConfig(loss="sampled", samples=4, tied=False),
    SoftmaxConfig(loss="adaptive", cutoffs=(5, 8), tied=False),
]
configs = st.builds(
    settings_of,
    st.sampled_from(["words", "characters", "both"]),
    layers=st.integers(1, 3),
    skip=st.booleans(),
    skip_tokens=st.booleans(),
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


def batch_of(model: BiLM, *sentences: list[str], read_end: bool = False) -> Batch:
    return pack_texts(sentences, VOCABULARY, spelled=model.spelled, read_end=read_end)


@torch.no_grad()
def read_padded(model: BiLM, *sentences: list[str]) -> tuple[Tensor, Tensor]:
    return model.layers(batch_of(model, *sentences, read_end=True)).padded()


@torch.no_grad()
def states(model: BiLM, sentence: list[str]) -> tuple[Tensor, Tensor]:
    """All layers of each direction for one sentence, (layers, steps, width) in reading order."""
    outputs = model.layers(batch_of(model, sentence))
    return torch.stack(outputs.forward), torch.stack(outputs.backward)


@torch.no_grad()
def predictions(model: BiLM, sentence: list[str], place: int) -> list[Tensor]:
    """What each direction expects at a place, read off where training asks for that word."""
    batch = batch_of(model, sentence)
    found: list[Tensor] = []
    for targets, top, number in zip(
        (batch.forward, batch.backward),
        model.layers(batch).at_targets(),
        [place, len(sentence) - 1 - place],
        strict=True,
    ):
        assert targets.ids[number] == VOCABULARY.id(sentence[place])
        found.append(model.output.log_probabilities(top[number, None])[0])
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
def test_layers_against_an_independent_computation(
    config: BiLMConfig, batch: list[list[str]]
) -> None:
    model = build_model(config)
    layers, mask = read_padded(model, *batch)
    assert mask.sum(1).tolist() == [len(sentence) for sentence in batch]
    assert layers.shape[:2] == (config.layers + 1, len(batch))
    for row, sentence in enumerate(batch):
        if sentence:
            expected = numpy_bilm.activations(model, sentence)
            np.testing.assert_allclose(
                layers[:, row, : len(sentence)].numpy(), expected, atol=1e-12
            )


@given(configs, texts, st.randoms(use_true_random=False))
def test_layers_do_not_depend_on_batch_mates_or_order(
    config: BiLMConfig, batch: list[list[str]], random: object
) -> None:
    model = build_model(config)
    together, mask = read_padded(model, *batch)
    order = list(range(len(batch)))
    random.shuffle(order)  # pyright: ignore
    shuffled, _ = read_padded(model, *(batch[place] for place in order))
    for row, place in enumerate(order):
        alone, _ = read_padded(model, batch[place])
        length = len(batch[place])
        torch.testing.assert_close(together[:, place, :length], alone[:, 0], **EXACT)
        torch.testing.assert_close(shuffled[:, row, :length], alone[:, 0], **EXACT)
    assert together[:, ~mask].eq(0).all()
    assert mask.sum() == sum(map(len, batch))


@given(texts)
def test_layers_in_single_precision(batch: list[list[str]]) -> None:
    exact, _ = read_padded(build_model(settings_of("both")), *batch)
    single = build_model(settings_of("both")).float()
    single.compute_dtype = torch.float32
    found, _ = read_padded(single, *batch)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found.double(), exact, rtol=0, atol=2e-6)


def test_layers_in_half_precision() -> None:
    model = build_model(settings_of("both")).float()
    model.compute_dtype = torch.float32
    batch = [["the", "cat", "sat"], ["naïve", "雨"]]
    exact, _ = read_padded(model, *batch)
    model.compute_dtype = torch.bfloat16
    found, _ = read_padded(model, *batch)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, exact, rtol=0, atol=0.05)


# The loss is what it says, and so is its gradient.


@pytest.mark.parametrize("kind", ["words", "characters", "both"])
def test_perplexity_against_rereading_every_prefix(kind: str) -> None:
    model = build_model(settings_of(kind))
    batch = [["the", "cat", "sat", "on", "unheard", "雨"], ["a"], [], ["naïve", "mat", "the"]]
    losses = model.loss(batch_of(model, *batch))
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
    losses = model.loss(batch_of(model, ["the", "cat"], ["a"]))
    expected = (losses.forward / 5 + losses.backward / 5) / 2
    torch.testing.assert_close(losses.mean, expected)


@pytest.mark.parametrize("kind", ["words", "characters", "both"])
@pytest.mark.parametrize("softmax", SOFTMAXES, ids=["full", "sampled", "adaptive"])
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
        return model.loss(batch, random=Randomness.of(3, 4, CPU)).mean

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


@pytest.mark.parametrize("softmax", SOFTMAXES, ids=["full", "sampled", "adaptive"])
def test_a_window_that_asks_for_nothing_teaches_nothing(softmax: SoftmaxConfig) -> None:
    # Where a lane of a stream ends between two documents.
    model = build_model(settings_of(softmax=softmax))
    table = WordTable.of(VOCABULARY.words, VOCABULARY, spelled=False)
    shard = Shard(np.array([END, START], np.uint32), np.array([2]))
    batch = pack_window(shard, Group(0, np.array([0]), np.array([2])), table, 2, 0)
    assert batch is not None
    assert batch.targets == 0
    losses = model.loss(batch)
    losses.mean.backward()
    assert losses.mean == 0
    assert all(p.grad is None or p.grad.eq(0).all() for p in model.parameters())


def test_frozen_words_stay_while_the_rest_learns() -> None:
    config = settings_of("both")
    frozen = BiLMConfig(**{**vars(config), "freeze_words": True})
    model = build_model(frozen)
    model.loss(batch_of(model, ["the", "cat"])).mean.backward()
    missing = [name for name, parameter in model.named_parameters() if parameter.grad is None]
    assert missing == ["token_layer.words.weight"]


# A text read in windows is the same text.


def long_texts(folder: Path, lengths: list[int]) -> tuple[Shards, WordTable]:
    random = np.random.default_rng(0)
    writer = ShardWriter(folder, 10**6)
    for length in lengths:
        writer.add([START, *random.integers(3, len(VOCABULARY), length).tolist(), END])
    writer.close()
    return Shards(folder), WordTable.of(VOCABULARY.words, VOCABULARY, spelled=True)


@pytest.mark.parametrize("window", [2, 3, 7, 50])
@pytest.mark.parametrize("kind", ["words", "characters"])
def test_reading_in_windows_equals_reading_at_once(tmp_path: Path, window: int, kind: str) -> None:
    model = build_model(settings_of(kind, layers=3))
    shards, table = long_texts(tmp_path, [31])
    (whole,) = read(shards, table, Batching(window=100, batch_tokens=100))
    expected = model.layers(whole)
    windows: list[LayerOutputs] = []
    state: BiLMState | None = None
    for batch in read(shards, table, Batching(window=window, batch_tokens=100)):
        windows.append(model.layers(batch, None if batch.is_first_window else state))
        state = windows[-1].state
    assert len(windows) == math.ceil(32 / window)
    for layer in range(3):
        ahead = torch.cat([found.forward[layer] for found in windows])
        torch.testing.assert_close(ahead, expected.forward[layer], **EXACT)
        behind = torch.cat([found.backward[layer] for found in windows])
        torch.testing.assert_close(behind, expected.backward[layer], **EXACT)


def test_the_loss_of_long_and_short_texts_does_not_depend_on_the_window(tmp_path: Path) -> None:
    model = build_model(settings_of())
    shards, table = long_texts(tmp_path, [31, 17, 4, 12, 9])
    totals: list[list[float]] = []
    for window in (100, 10, 4):
        total = [0.0, 0.0]
        state: BiLMState | None = None
        for batch in read(shards, table, Batching(window=window, batch_tokens=120)):
            losses = model.loss(batch, None if batch.is_first_window else state)
            state = losses.state
            total[0] += losses.forward.item()
            total[1] += losses.backward.item()
        totals.append(total)
    assert totals[1] == pytest.approx(totals[0], rel=1e-12)
    assert totals[2] == pytest.approx(totals[0], rel=1e-12)


def test_a_carried_state_has_no_gradient_but_an_effect() -> None:
    model = build_model(settings_of())
    batch = batch_of(model, ["the", "cat"])
    first = model.loss(batch)
    state = first.state
    assert not any(
        tensor.requires_grad
        for direction in state
        for layer in direction
        for tensor in (layer.output, layer.cell)
    )
    assert not torch.isclose(model.loss(batch, state).forward, first.forward)
    assert not torch.isclose(model.loss(batch, state).backward, first.backward)


# Chance is a function of seed and step.


def test_dropout_is_a_function_of_seed_and_step() -> None:
    model = build_model(settings_of(dropout=0.5))
    batch = batch_of(model, ["the", "cat", "sat"], ["a"])

    def loss(seed: int, step: int) -> tuple[float, float]:
        found = model.loss(batch, random=Randomness.of(seed, step, CPU))
        return found.forward.item(), found.backward.item()

    torch.manual_seed(1)
    first = loss(7, 20)
    torch.manual_seed(2)
    assert loss(7, 20) == first
    others = [loss(7, 21), loss(8, 20), loss(7, 19)]
    assert len({first, *others}) == 4
    silent = model.loss(batch)
    assert silent.forward.item() == model.loss(batch).forward.item()
    assert silent.forward.item() != first[0]


def test_dropout_falls_on_inputs_and_output() -> None:
    model = build_model(settings_of(layers=1, dropout=0.5))
    sentence = ["the", "cat", "sat"]
    found = model.loss(batch_of(model, sentence), random=Randomness.of(1, 2, CPU))
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


def test_the_dropout_of_a_stack_is_that_of_its_top_too() -> None:
    """Fine-tuning sets it; the config's is that of the pre-training."""
    model = build_model(settings_of(dropout=0.5))
    for stack in model.directions:
        stack.dropout = 0.0
    batch = batch_of(model, ["the", "cat", "sat"])
    torch.testing.assert_close(
        model.loss(batch, random=Randomness.of(1, 2, CPU)).mean, model.loss(batch).mean
    )


def test_training_leaves_the_global_source_of_chance_alone() -> None:
    softmax = SoftmaxConfig(loss="sampled", samples=4, tied=False)
    model = build_model(settings_of(dropout=0.5, softmax=softmax))
    before = torch.get_rng_state()
    model.loss(batch_of(model, ["the", "cat"]), random=Randomness.of(1, 1, CPU)).mean.backward()
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


# Every way to run both directions gives the same.


@given(
    batch=texts,
    layers=st.integers(1, 3),
    skip=st.booleans(),
    skip_tokens=st.booleans(),
    projection=st.sampled_from([None, 3]),
    carries=st.booleans(),
    upto=st.sampled_from([None, 1]),
)
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@pytest.mark.parametrize("clip", [None, 0.1])
@torch.no_grad()
def test_executors_agree(
    monkeypatch: pytest.MonkeyPatch,
    clip: float | None,
    batch: list[list[str]],
    layers: int,
    skip: bool,
    skip_tokens: bool,
    projection: int | None,
    carries: bool,
    upto: int | None,
) -> None:
    config = BiLMConfig(
        word_dim=4, hidden=4, projection=projection, layers=layers, skip=skip,
        skip_tokens=skip_tokens, cell_clip=clip, projection_clip=clip if projection else None,
        softmax=SoftmaxConfig(tied=False),
    )  # fmt: skip
    model = build_model(config)
    packed = batch_of(model, *batch)
    monkeypatch.setattr(LSTMLayer, "uses_torch", lambda *_: False)
    state = model.layers(packed).state if carries else None
    torch_reads = clip is None and projection is None
    found: list[LayerOutputs] = []
    for few, uses_torch in ((0, False), (4, False), (0, torch_reads)):
        monkeypatch.setattr(module, "FEW_TEXTS", few)
        monkeypatch.setattr(LSTMLayer, "uses_torch", lambda *_, answer=uses_torch: answer)
        found.append(model.layers(packed, state, upto=upto))
    with torch.enable_grad():  # two threads with a graph each
        found.append(model.layers(packed, state, upto=upto))
    for other in found[1:]:
        torch.testing.assert_close(other.forward, found[0].forward, **EXACT)
        torch.testing.assert_close(other.backward, found[0].backward, **EXACT)
        for mine, theirs in zip(other.state, found[0].state, strict=True):
            torch.testing.assert_close(
                [tuple(layer) for layer in mine], [tuple(layer) for layer in theirs], **EXACT
            )


@pytest.mark.parametrize("dropout", [0.0, 0.4])
@pytest.mark.parametrize("skip_tokens", [False, True])
def test_losses_and_gradients_of_torchs_lstm_are_those_of_the_scan(
    monkeypatch: pytest.MonkeyPatch, dropout: float, skip_tokens: bool
) -> None:
    softmax = SoftmaxConfig(loss="sampled", samples=4, tied=False)
    config = BiLMConfig(
        word_dim=4, hidden=4, layers=2, skip=True, skip_tokens=skip_tokens, dropout=dropout,
        softmax=softmax,
    )  # fmt: skip
    model = build_model(config)
    batch = batch_of(model, ["the", "cat", "sat"], ["unheard", "雨"], [])
    found: list[list[Tensor]] = []
    for uses_torch in (True, False):
        monkeypatch.setattr(LSTMLayer, "uses_torch", lambda *_, answer=uses_torch: answer)
        model.zero_grad()
        loss = model.loss(batch, random=Randomness.of(1, 2, CPU)).mean
        loss.backward()
        found.append([loss, *(p.grad for p in model.parameters() if p.grad is not None)])
    assert len(found[0]) > 8
    for mine, other in zip(*found, strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-10, atol=1e-12)


def test_a_text_that_cannot_fit_into_memory_is_refused_before_it_takes_any(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A line of 16 MB asks a model of 256 cells for 80 GB, and the system kills the process."""
    loaded = make_model()
    monkeypatch.setattr(module, "machine_memory", lambda: 1 << 20)
    with pytest.raises(UserError, match=r"text of 70,000 words takes .* GB of .* shorter texts"):
        loaded.model.layers(loaded.model.pack([["cat"] * 70_000]))
    with torch.no_grad():
        loaded.model.layers(loaded.model.pack([["cat"] * 300]))
