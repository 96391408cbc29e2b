"""In blocks, a row's result is that of the function, and its bits are its own."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from elmo.bilm.blocks import LENGTHS, by_length, in_blocks, needed_lengths
from elmo.bilm.config import CharacterConfig
from elmo.bilm.tokens import CharacterCNN
from elmo.text.characters import spell_all

WORDS = st.text(alphabet="abcxyzé雨", min_size=1, max_size=30)
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


@given(st.lists(WORDS, min_size=1, max_size=60, unique=True), st.randoms(use_true_random=False))
def test_bits_do_not_depend_on_other_rows(words: list[str], random: object) -> None:
    spellings = torch.from_numpy(spell_all(words))
    order = list(range(len(words)))
    random.shuffle(order)  # pyright: ignore
    some = order[: max(1, len(order) // 2)]
    with torch.no_grad():
        whole = by_length(CNN.convolve, spellings, CNN.reach)
        part = by_length(CNN.convolve, spellings[some], CNN.reach)
    assert torch.equal(part, whole[some])


@given(st.lists(WORDS, min_size=1, max_size=20))
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


def test_gradients_are_those_of_a_convolution() -> None:
    spellings = torch.from_numpy(spell_all(["cat", "naïve", "x" * 60, "雨"]))
    cnn = CharacterCNN(CharacterConfig(char_dim=4, filters=((1, 3), (4, 5)))).double()
    weights = list(cnn.parameters())
    found = torch.autograd.grad(cnn(spellings).square().sum(), weights)
    characters = cnn.characters(spellings).transpose(1, 2)
    convolved = [nn.functional.relu(f(characters).amax(dim=2)) for f in cnn.convolutions]
    plain = cnn.transform(torch.cat(convolved, dim=1)).square().sum()
    for one, other in zip(found, torch.autograd.grad(plain, weights), strict=True):
        torch.testing.assert_close(one, other)
