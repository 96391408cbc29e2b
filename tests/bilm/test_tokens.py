"""Remembered vectors are those that would be computed, to the last bit, whatever came before."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.bilm.numpy_bilm import array, character_features, highway_layer, official_row, token
from torch import Tensor, nn

from elmo.bilm.config import BiLMConfig, CharacterConfig, SoftmaxConfig
from elmo.bilm.lstm import SAMPLE, WeightsSnapshot
from elmo.bilm.tokens import (
    LENGTHS,
    ROWS,
    CharacterCNN,
    Highway,
    TokenLayer,
    WordCache,
    by_length,
    in_blocks,
    needed_lengths,
)
from elmo.text.batching import Words, WordTable, pack_texts
from elmo.text.vocabulary import SPECIAL_WORDS, Vocabulary, spell_all

# The token layer against the official equations, written with loops.


WORDS = ["<S>", "</S>", "cat", "naïve", "雨", "x" * 60, "unheard"]
CHARACTERS = CharacterConfig(char_dim=3, filters=((1, 2), (2, 3), (7, 4)), highways=2)
ACTIVATIONS = {"relu": lambda x: max(0.0, x), "tanh": np.tanh}


def config(kind: str, **settings: object) -> BiLMConfig:
    given = {"word_dim": 4, "hidden": 5, "softmax": SoftmaxConfig(tied=False), **settings}
    return BiLMConfig(input=kind, characters=CHARACTERS, **given)  # pyright: ignore


def shaken(module: torch.nn.Module) -> None:
    """Give every parameter, biases included, a value that would be missed."""
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(torch.randn(parameter.shape, dtype=parameter.dtype) * 0.3)


@pytest.mark.parametrize("activation", ["relu", "tanh"])
@pytest.mark.parametrize("highways", [0, 1, 2])
def test_character_features(activation: str, highways: int) -> None:
    torch.manual_seed(0)
    settings = CharacterConfig(
        char_dim=3,
        filters=((1, 2), (2, 3), (7, 4)),
        highways=highways,
        activation=activation,  # pyright: ignore
    )
    cnn = CharacterCNN(settings).double()
    shaken(cnn)
    rows = [official_row(word) for word in WORDS]
    found = cnn(torch.tensor(rows))
    expected = [character_features(cnn, row, ACTIVATIONS[activation]) for row in rows]
    np.testing.assert_allclose(array(found), np.array(expected), atol=1e-12)


def test_highway() -> None:
    torch.manual_seed(1)
    highway = Highway(4).double()
    # "Carry" gates the transform: at first a highway lets nearly everything pass.
    assert highway.gate.bias.eq(-2).all()
    assert highway.transform.bias.eq(0).all()
    shaken(highway)
    inputs = torch.randn(3, 4, dtype=torch.float64)
    expected = np.array([highway_layer(highway, array(row)) for row in inputs])
    np.testing.assert_allclose(array(highway(inputs)), expected, atol=1e-12)


@pytest.mark.parametrize("kind", ["words", "characters", "both"])
@pytest.mark.parametrize("projection", [None, 4])
def test_token_vectors(vocabulary: Vocabulary, kind: str, projection: int | None) -> None:
    torch.manual_seed(2)
    layer = TokenLayer(config(kind, projection=projection), vocabulary).double()
    shaken(layer)
    batch = pack_texts([WORDS[2:]], vocabulary, spelled=kind != "words")
    found = array(layer(batch.words))[batch.inputs[0]]
    expected = [
        token(layer, word, vocabulary.id(word), ACTIVATIONS["relu"]) for word in ["<S>", *WORDS[2:]]
    ]
    np.testing.assert_allclose(found, np.array(expected), atol=1e-12)


def test_word_vectors_as_wide_as_the_model_need_no_projection(vocabulary: Vocabulary) -> None:
    assert TokenLayer(config("words", word_dim=5), vocabulary).projection is None
    assert TokenLayer(config("words", word_dim=4), vocabulary).projection is not None
    assert TokenLayer(config("characters"), vocabulary).word_vectors is None


@pytest.mark.parametrize("kind", ["words", "characters", "both"])
def test_gradients_against_differences(vocabulary: Vocabulary, kind: str) -> None:
    torch.manual_seed(3)
    layer = TokenLayer(config(kind), vocabulary).double()
    shaken(layer)
    words = pack_texts([["cat", "雨"]], vocabulary, spelled=kind != "words").words
    parameters = dict(layer.named_parameters())
    # The vectors of characters are checked apart: most are not used by these words.
    large = {"characters.characters.weight"}
    names = [name for name in parameters if name not in large]

    def vectors(*values: Tensor) -> Tensor:
        given = {**parameters, **dict(zip(names, values, strict=True))}
        return torch.func.functional_call(layer, given, (words,))

    leaves = [parameters[name].detach().clone().requires_grad_() for name in names]
    assert torch.autograd.gradcheck(vectors, leaves, fast_mode=True)


def test_gradients_of_the_characters() -> None:
    torch.manual_seed(4)
    cnn = CharacterCNN(CHARACTERS).double()
    row = torch.tensor([official_row("cat")])
    used = sorted(set(row[0].tolist()))

    def features(vectors: Tensor) -> Tensor:
        table = cnn.characters.weight.detach().index_copy(0, torch.tensor(used), vectors)
        return torch.func.functional_call(cnn, {"characters.weight": table}, (row,))

    leaf = cnn.characters.weight.detach()[used].clone().requires_grad_()
    assert torch.autograd.gradcheck(features, (leaf,))


def test_frozen_word_vectors_get_no_gradient(vocabulary: Vocabulary) -> None:
    layer = TokenLayer(config("both", freeze_words=True), vocabulary)
    layer(pack_texts([["cat"]], vocabulary, spelled=True).words).sum().backward()
    missing = [name for name, parameter in layer.named_parameters() if parameter.grad is None]
    assert missing == ["words.weight"]


def test_the_first_character_stands_for_nothing() -> None:
    assert CharacterCNN(CHARACTERS).characters.weight[0].eq(0).all()


def test_words_without_spelling_are_told_apart_by_id_only(vocabulary: Vocabulary) -> None:
    layer = TokenLayer(config("words"), vocabulary)
    found = layer(Words(torch.tensor([2, 2, 3]), None))
    assert torch.equal(found[0], found[1])
    assert not torch.equal(found[0], found[2])


# In blocks, a row's result is that of the function, and its bits are its own.


WORDS_blocks = st.text(alphabet="abcxyzé雨", min_size=1, max_size=30)
CNN = CharacterCNN(CharacterConfig(char_dim=16, filters=((1, 8), (3, 40), (7, 80))))


@pytest.mark.parametrize("number", [1, 5, 8, 9, 24])
def test_blocks_are_full_and_rows_in_order(number: int) -> None:
    sizes: list[int] = []

    def function(one: Tensor, other: Tensor) -> Tensor:
        sizes.append(len(one))
        return one + other

    one, other = torch.randn(number, 3), torch.randn(number, 3)
    assert torch.equal(in_blocks(function, one, other, rows=8), one + other)
    assert sizes == [8] * -(-number // 8)


@given(
    st.lists(WORDS_blocks, min_size=1, max_size=60, unique=True), st.randoms(use_true_random=False)
)
def test_bits_do_not_depend_on_other_rows(words: list[str], random: object) -> None:
    spellings = torch.from_numpy(spell_all(words))
    order = list(range(len(words)))
    random.shuffle(order)  # pyright: ignore
    some = order[: max(1, len(order) // 2)]
    with torch.no_grad():
        whole = by_length(CNN.convolve, spellings, CNN.reach)
        part = by_length(CNN.convolve, spellings[some], CNN.reach)
    assert torch.equal(part, whole[some])


@given(st.lists(WORDS_blocks, min_size=1, max_size=20))
def test_what_is_cut_off_says_nothing(words: list[str]) -> None:
    spellings = torch.from_numpy(spell_all(words))
    characters = CNN.characters(spellings).transpose(1, 2)
    plain = torch.cat(
        [torch.relu(filters(characters).amax(dim=2)) for filters in CNN.convolutions], dim=1
    )
    found = by_length(CNN.convolve, spellings, CNN.reach)
    torch.testing.assert_close(found, plain, rtol=0, atol=2e-6)
    torch.testing.assert_close(CNN(spellings), CNN.transform(plain), rtol=0, atol=2e-6)


def test_the_length_needed_is_the_word_its_marks_and_a_window() -> None:
    spellings = torch.from_numpy(spell_all(["a", "abcdefg", "<S>", "x" * 48, "雨"]))
    assert needed_lengths(spellings, 7).tolist() == [10, 16, 10, 50, 12]
    assert LENGTHS[-1] == 50


@pytest.mark.parametrize("rows", [2, 256])
def test_gradients_are_those_of_a_convolution(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("elmo.bilm.tokens.TRAINED_ROWS", rows)  # blocks of two, or all words in one
    spellings = torch.from_numpy(spell_all(["cat", "naïve", "x" * 60, "雨", "a"]))
    cnn = CharacterCNN(CharacterConfig(char_dim=4, filters=((1, 3), (4, 5)))).double()
    weights = list(cnn.parameters())
    found = torch.autograd.grad(cnn(spellings).square().sum(), weights)
    characters = cnn.characters(spellings).transpose(1, 2)
    convolved = [nn.functional.relu(f(characters).amax(dim=2)) for f in cnn.convolutions]
    plain = cnn.transform(torch.cat(convolved, dim=1)).square().sum()
    for one, other in zip(found, torch.autograd.grad(plain, weights), strict=True):
        torch.testing.assert_close(one, other)


def test_no_spellings_have_no_features() -> None:
    assert CNN(torch.from_numpy(spell_all([]))).shape == (0, 128)


LEXICON = [f"{'abcdefgh'[n % 8]}{n}" for n in range(150)] + ["x" * 49, "x" * 60, "naïve", "雨"]
FILTERS = ((1, 8), (3, 40), (7, 80))


def layer_of(kind: str = "characters", words: int = 13, seed: int = 0) -> TokenLayer:
    config = BiLMConfig(
        input=kind,  # pyright: ignore
        word_dim=6,
        characters=CharacterConfig(char_dim=16, filters=FILTERS),
        hidden=48,
        softmax=SoftmaxConfig(loss="none", tied=False),
    )
    torch.manual_seed(seed)
    names = (*SPECIAL_WORDS, *(f"word{number}" for number in range(words - 3)))
    return TokenLayer(config, Vocabulary(names, (0,) * words))


def spelled(words: list[str], vocabulary: Vocabulary) -> Words:
    table = WordTable.of(words, vocabulary, spelled=True)
    return table.select(torch.arange(len(words)).numpy())


class Rows:
    """How many words, those that fill up blocks included, were computed."""

    def __init__(self, layer: TokenLayer) -> None:
        self.seen = 0
        assert layer.projection is not None
        layer.projection.register_forward_hook(self)

    def __call__(self, module: nn.Module, inputs: Any, output: Tensor) -> None:
        self.seen += len(output)


@given(
    st.lists(
        st.lists(st.sampled_from(LEXICON), min_size=1, max_size=70, unique=True),
        min_size=1,
        max_size=6,
    ),
    st.sampled_from(["characters", "both"]),
    st.sampled_from([1, 7, 40, 1000]),
)
def test_a_words_vector_depends_neither_on_its_batch_nor_on_the_past(
    vocabulary: Vocabulary, batches: list[list[str]], kind: str, most_words: int
) -> None:
    layer, fresh = layer_of(kind), layer_of(kind)
    layer.cache = WordCache(most_words)
    vectors: dict[str, Tensor] = {}
    with torch.no_grad():
        for batch in batches:
            found = layer(spelled(batch, vocabulary))
            fresh.cache.clear()
            assert torch.equal(found, fresh(spelled(batch, vocabulary)))
            for word, vector in zip(batch, found, strict=True):
                assert torch.equal(vectors.setdefault(word, vector), vector)
            assert len(layer.cache) <= most_words
    plain = layer.compute(spelled(batches[-1], vocabulary))
    torch.testing.assert_close(found, plain.detach(), rtol=0, atol=2e-6)


def test_each_word_is_computed_once_in_a_run(vocabulary: Vocabulary) -> None:
    layer = layer_of()
    rows = Rows(layer)
    with torch.no_grad():
        for first in range(0, 96, 16):  # every word in two batches
            layer(spelled(LEXICON[first : first + 32], vocabulary))
    words = 96 + 16
    assert words <= rows.seen <= words + 6 * ROWS
    before = rows.seen
    with torch.no_grad():
        layer(spelled(LEXICON[:words], vocabulary))
    assert rows.seen == before


def test_words_not_used_for_longest_are_forgotten(vocabulary: Vocabulary) -> None:
    layer = layer_of()
    layer.cache = WordCache(3)
    rows = Rows(layer)

    def is_known(*words: str) -> bool:
        before = rows.seen
        with torch.no_grad():
            layer(spelled(list(words), vocabulary))
        return rows.seen == before

    assert not is_known("a", "b", "c")
    assert is_known("a")
    assert not is_known("d")  # in the place of b
    assert is_known("a", "c", "d")
    assert not is_known("b")
    assert not is_known("a", "b", "c", "d")  # more than are kept
    assert len(layer.cache) == 3


def step(optimizer: Callable[..., torch.optim.Optimizer], **options: Any) -> Any:
    def change(layer: TokenLayer) -> None:
        for parameter in layer.parameters():
            parameter.grad = torch.ones_like(parameter)
        optimizer(layer.parameters(), lr=0.1, **options).step()

    return change


def added(layer: TokenLayer) -> None:
    with torch.no_grad():
        next(layer.parameters()).add_(1.0)


def replaced(layer: TokenLayer) -> None:
    assert layer.projection is not None
    layer.projection.weight = nn.Parameter(torch.zeros_like(layer.projection.weight))


def by_data(layer: TokenLayer) -> None:
    assert layer.projection is not None
    layer.projection.weight.data = layer.projection.weight.data + 1


def behind_autograd(layer: TokenLayer) -> None:
    next(layer.parameters()).data.add_(1.0)


CHANGES: dict[str, Callable[[TokenLayer], object]] = {
    "in place": added,
    "another parameter": replaced,
    "other data": by_data,
    "behind autograd": behind_autograd,
    "fused adamw": step(torch.optim.AdamW, fused=True),
    "foreach adamw": step(torch.optim.AdamW, foreach=True),
    "adagrad": step(torch.optim.Adagrad),
    "fused sgd": step(torch.optim.SGD, fused=True),
    "sgd": step(torch.optim.SGD, momentum=0.9, nesterov=True),
    "loaded": lambda layer: layer.load_state_dict(layer_of(seed=1).state_dict()),
    "assigned": lambda layer: layer.load_state_dict(layer_of(seed=1).state_dict(), assign=True),
    "rounded": lambda layer: layer.bfloat16().float(),
    "in double precision": lambda layer: layer.double(),
}


@pytest.mark.parametrize("change", CHANGES)
def test_changed_weights_give_other_vectors(vocabulary: Vocabulary, change: str) -> None:
    layer, words = layer_of(), spelled(LEXICON[:5], vocabulary)
    with torch.no_grad():
        before = layer(words)
    CHANGES[change](layer)
    with torch.no_grad():
        after = layer(words)
        torch.testing.assert_close(after, layer.compute(words), rtol=1e-5, atol=1e-5)
    assert after.dtype != before.dtype or not torch.equal(after, before)


def test_gradients_flow_as_if_nothing_was_remembered(vocabulary: Vocabulary) -> None:
    layer, words = layer_of(), spelled(LEXICON[:5], vocabulary)
    with torch.no_grad():
        layer(words)
    layer(words).sum().backward()
    assert all(parameter.grad is not None for parameter in layer.parameters())


def test_frozen_weights_are_remembered_while_others_learn(vocabulary: Vocabulary) -> None:
    layer, words = layer_of().requires_grad_(False), spelled(LEXICON[:5], vocabulary)
    rows = Rows(layer)
    assert torch.equal(layer(words), layer(words))
    assert rows.seen == ROWS
    layer.requires_grad_(True)
    assert layer(words).requires_grad


def test_modes_may_change_between_two_calls(vocabulary: Vocabulary) -> None:
    layer, words = layer_of(), spelled(LEXICON[:5], vocabulary)
    with torch.inference_mode():
        first = layer(words)
    with torch.no_grad():
        both = layer(spelled(LEXICON[:9], vocabulary))
        with torch.autocast("cpu", torch.bfloat16):
            assert torch.equal(layer(words), first)
        assert torch.equal(layer(words), first)
    assert torch.equal(both[:5], first)


@torch.no_grad()
def test_autocast_leaves_no_rounded_vectors_in_the_cache(vocabulary: Vocabulary) -> None:
    layer, words = layer_of(), spelled(LEXICON[:5], vocabulary)
    expected = copy.deepcopy(layer)(words)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(layer(words), expected)
    assert torch.equal(layer(words), expected)


def test_weights_that_keep_no_record_are_not_trusted(vocabulary: Vocabulary) -> None:
    with torch.inference_mode():
        layer, words = layer_of(), spelled(LEXICON[:5], vocabulary)
        before = layer(words)
        next(layer.parameters()).add_(1.0)
        assert not torch.equal(layer(words), before)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))])
def test_a_copy_remembers_for_itself(vocabulary: Vocabulary, copied: Any) -> None:
    layer, words = layer_of(), spelled(LEXICON[:5], vocabulary)
    with torch.no_grad():
        before = layer(words)
        other = copied(layer)
        assert len(other.cache) == 0
        added(other)
        assert not torch.equal(other(words), before)
        assert torch.equal(layer(words), before)
    assert "cache" not in "".join(layer.state_dict())


@pytest.mark.parametrize("most_words", [1000, 20])
def test_an_interrupt_leaves_no_wrong_vectors(
    vocabulary: Vocabulary, monkeypatch: pytest.MonkeyPatch, most_words: int
) -> None:
    layer = layer_of()
    layer.cache = WordCache(most_words)
    make = torch.tensor

    def interrupted(values: object, **options: Any) -> Tensor:
        if isinstance(values, list):  # the rows of the cache that are about to be written
            raise KeyboardInterrupt
        return make(values, **options)

    with torch.no_grad():
        layer(spelled(LEXICON[:20], vocabulary))
        monkeypatch.setattr(torch, "tensor", interrupted)
        with pytest.raises(KeyboardInterrupt):
            layer(spelled(LEXICON[15:30], vocabulary))
        monkeypatch.undo()
        words = spelled(LEXICON[10:30], vocabulary)
        vectors = layer(words)
        layer.cache.clear()
        assert torch.equal(vectors, layer(words))


def test_threads_do_not_get_in_each_others_way(vocabulary: Vocabulary) -> None:
    layer = layer_of()
    layer.cache = WordCache(20)
    batches = [spelled(LEXICON[n : n + 15], vocabulary) for n in range(0, 120, 5)]

    def read(words: Words) -> Tensor:
        with torch.no_grad():
            return layer(words)

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(read, batches * 4))
    layer.cache.clear()
    for vectors, words in zip(found, batches * 4, strict=True):
        assert torch.equal(vectors, read(words))


# Weights are the same as long as nothing is written to them, however it is written.


def weights(count: int = 2) -> list[Tensor]:
    torch.manual_seed(0)
    return [torch.randn(300, 40) for _ in range(count)]


def test_untouched_weights_are_the_same() -> None:
    some = weights()
    assert WeightsSnapshot.of(some).is_still(WeightsSnapshot.of(some))


def test_equal_copies_are_others() -> None:
    assert not WeightsSnapshot.of(weights()).is_still(WeightsSnapshot.of(weights()))


def test_one_weight_less_is_a_change() -> None:
    some = weights()
    assert not WeightsSnapshot.of(some).is_still(WeightsSnapshot.of(some[:1]))


@given(st.integers(0, 299), st.integers(0, 39))
def test_a_single_number_written_in_place_is_seen(row: int, column: int) -> None:
    some = weights()
    before = WeightsSnapshot.of(some)
    some[1][row, column] += 1
    assert not before.is_still(WeightsSnapshot.of(some))


@pytest.mark.parametrize("shape", [(1,), (SAMPLE + 1,), (64, 128), (128, 64), (1000, 64)])
def test_what_is_written_to_the_data_of_a_row_or_column_is_seen(shape: tuple[int, ...]) -> None:
    """A version does not count it, so the sample must meet every column and the first row."""
    weight = torch.zeros(shape)
    for column in range(shape[-1]):
        before = WeightsSnapshot.of([weight])
        weight.data[..., column] += 1
        assert not before.is_still(WeightsSnapshot.of([weight]))


def test_what_is_kept_does_not_change_with_the_weights() -> None:
    """A sample of a small weight is a view of it; it must not move along unnoticed."""
    weight = torch.zeros(5)
    before = WeightsSnapshot.of([weight])
    weight.data += 1
    assert not before.is_still(WeightsSnapshot.of([weight]))
