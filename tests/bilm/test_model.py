"""The central proofs: no direction sees what it must predict, and no text sees another.

All over the kinds of input, one to three layers, with and without skip connection and projection,
in double precision, so that "unchanged" means unchanged.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.bilm import numpy_bilm
from torch import Tensor

from elmo.bilm.config import BiLMConfig, CharacterConfig, SoftmaxConfig
from elmo.bilm.model import BiLM, BiLMState, LayerActivations, Randomness
from elmo.bilm.stack import StackOutput
from elmo.text.batches import Batch, WordTable, make_batch, sentence_batch, whole_batch
from elmo.text.batching import read
from elmo.text.batching_config import Batching
from elmo.text.shards import Shards, ShardWriter
from elmo.text.vocabulary import BEGIN, END, SPECIAL_WORDS, Vocabulary

KNOWN = ("the", "cat", "sat", "on", "a", "mat", "naïve", "雨")
UNKNOWN = ("unheard", "of")
VOCABULARY = Vocabulary((*SPECIAL_WORDS, *KNOWN), (9, 9, 4, *range(30, 14, -2)))
CPU = torch.device("cpu")
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


def build(config: BiLMConfig, seed: int = 0) -> BiLM:
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
    model = build(config)
    one, _ = states(model, before + after)
    other, _ = states(model, before + instead)
    steps = len(before) + 1
    torch.testing.assert_close(one[:, :steps], other[:, :steps], **EXACT)


@given(configs, sentences, sentences, sentences)
def test_backward_states_do_not_depend_on_what_precedes(
    config: BiLMConfig, before: list[str], after: list[str], instead: list[str]
) -> None:
    model = build(config)
    _, one = states(model, before + after)
    _, other = states(model, instead + after)
    steps = len(after) + 1
    torch.testing.assert_close(one[:, :steps], other[:, :steps], **EXACT)


@given(configs, sentences, any_words, any_words, sentences)
def test_a_prediction_does_not_depend_on_the_word_it_is_for(
    config: BiLMConfig, before: list[str], word: str, instead: str, after: list[str]
) -> None:
    model = build(config)
    found = predictions(model, [*before, word, *after], len(before))
    other = predictions(model, [*before, instead, *after], len(before))
    for one, changed in zip(found, other, strict=True):
        torch.testing.assert_close(one, changed, **EXACT)


@given(configs, sentences, known_words, known_words, sentences)
def test_states_and_predictions_do_depend_on_words_that_were_read(
    config: BiLMConfig, before: list[str], word: str, instead: str, after: list[str]
) -> None:
    model = build(config)
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
    model = build(config)
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
    model = build(config)
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
    double = build(settings_of("both"))
    exact = double.activations(whole_of(double, *batch)).layers
    single = build(settings_of("both")).float()
    single.compute_dtype = torch.float32
    found = single.activations(whole_of(single, *batch)).layers
    assert found.dtype == torch.float32
    torch.testing.assert_close(found.double(), exact, rtol=0, atol=2e-6)


def test_activations_in_half_precision() -> None:
    model = build(settings_of("both")).float()
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
    model = build(settings_of(kind))
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
    model = build(settings_of())
    losses = model(batch_of(model, ["the", "cat"], ["a"]))
    expected = (losses.forward / 5 + losses.backward / 5) / 2
    torch.testing.assert_close(losses.mean, expected)


@pytest.mark.parametrize("kind", ["words", "characters", "both"])
@pytest.mark.parametrize("softmax", SOFTMAXES, ids=["full", "sampled", "own samples", "adaptive"])
def test_gradients_against_differences(kind: str, softmax: SoftmaxConfig) -> None:
    """Along random directions, parameter by parameter, dropout and samples held fixed."""
    model = build(settings_of(kind, softmax=softmax, dropout=0.3))
    batch = batch_of(model, ["the", "cat", "sat"], ["unheard", "雨"])
    check_gradients(model, batch)


def test_gradients_of_tied_weights_against_differences() -> None:
    softmax = SoftmaxConfig(loss="sampled", samples=4, tied=True)
    model = build(settings_of(projection=None, softmax=softmax))
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
    model = build(settings_of(softmax=softmax))
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
    model = build(frozen)
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
    model = build(settings_of(kind, layers=3))
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
    model = build(settings_of())
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
    model = build(settings_of())
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
    model = build(settings_of(dropout=0.5))
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
    model = build(settings_of(layers=1, dropout=0.5))
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
    model = build(settings_of(dropout=0.5, softmax=softmax))
    before = torch.get_rng_state()
    model(batch_of(model, ["the", "cat"]), random=Randomness.of(1, 1, CPU)).mean.backward()
    assert torch.equal(torch.get_rng_state(), before)


def test_both_directions_draw_for_themselves() -> None:
    steps = [Randomness.of(5, step, CPU) for step in range(20)]
    drawn = [torch.rand(4, generator=one).tolist() for pair in steps for one in pair]
    assert len({tuple(values) for values in drawn}) == 40
