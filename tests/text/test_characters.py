"""Rows of characters, byte for byte as the official models expect them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmo.text.characters import CHARACTER_IDS, spell, spell_all

# Ids of the official format, before 1 is added to each.
BEGIN_SENTENCE, END_SENTENCE, BEGIN_WORD, END_WORD, PADDING = 256, 257, 258, 259, 260


def row(*content: int) -> list[int]:
    ids = [BEGIN_WORD, *content, END_WORD]
    return [number + 1 for number in ids + [PADDING] * (50 - len(ids))]


@pytest.mark.parametrize(
    ("word", "content"),
    [
        ("cat", [99, 97, 116]),
        ("é", [0xC3, 0xA9]),
        ("雨", [0xE9, 0x9B, 0xA8]),
        ("👍", [0xF0, 0x9F, 0x91, 0x8D]),
        ("<S>", [BEGIN_SENTENCE]),
        ("</S>", [END_SENTENCE]),
        ("<s>", [60, 115, 62]),
        ("<UNK>", [60, 85, 78, 75, 62]),
        ("", []),
        ("x" * 48, [120] * 48),
        ("x" * 49, [120] * 48),
        ("x" * 5000, [120] * 48),
        # The cut counts bytes, and may go through a letter.
        ("x" * 47 + "é", [120] * 47 + [0xC3]),
        ("雨" * 17, [0xE9, 0x9B, 0xA8] * 16),
    ],
)
def test_rows(word: str, content: list[int]) -> None:
    assert spell(word).tolist() == row(*content)


def test_the_first_row_in_full() -> None:
    assert spell("<S>").tolist() == [259, 257, 260] + [261] * 47


@given(st.text())
def test_every_row_fits_the_table_of_characters(word: str) -> None:
    found = spell(word)
    assert found.shape == (50,)
    assert found.min() >= 1
    assert found.max() < CHARACTER_IDS == 262


@given(st.text(max_size=12))
def test_a_short_word_can_be_read_back(word: str) -> None:
    content = [number - 1 for number in spell(word).tolist() if number <= 256]
    assert bytes(content).decode() == word


def test_half_a_surrogate_pair_is_spelled_too() -> None:
    assert spell("\ud800").tolist() == row(0xED, 0xA0, 0x80)


def test_many_words() -> None:
    assert spell_all(["cat", "</S>"]).tolist() == [row(99, 97, 116), row(END_SENTENCE)]
    assert spell_all([]).shape == (0, 50)
