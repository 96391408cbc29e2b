"""Remembered vectors are those that would be computed, to the last bit, whatever came before."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from elmo.bilm.blocks import ROWS
from elmo.bilm.config import BiLMConfig, CharacterConfig, SoftmaxConfig
from elmo.bilm.tokens import TokenLayer
from elmo.bilm.word_cache import WordCache
from elmo.text.batches import Words, WordTable
from elmo.text.vocabulary import Vocabulary

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
    return TokenLayer(config, words)


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
            rounded = layer(words)
        assert torch.equal(layer(words), first)
    assert torch.equal(both[:5], first)
    assert rounded.dtype == torch.bfloat16


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
