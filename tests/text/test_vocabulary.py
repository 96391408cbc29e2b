"""Ids are places in the list, the list is cut by count and size, and files come back whole."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmo.errors import UserError
from elmo.text.vocabulary import (
    CHARACTER_IDS,
    END,
    SPECIAL_WORDS,
    START,
    UNKNOWN,
    Vocabulary,
    build_vocabulary,
    read_counts,
    spell,
    spell_all,
)

# Rows of characters, byte for byte as the official models expect them.


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


WORDS = st.text(st.characters(codec="utf-8"), min_size=1, max_size=6).filter(
    lambda word: word.split() == [word] and word not in SPECIAL_WORDS
)
COUNTS = st.integers(0, 10**15)


def test_special_words_have_the_first_ids(vocabulary: Vocabulary) -> None:
    assert (START, END, UNKNOWN) == (0, 1, 2)
    assert vocabulary.id("<S>") == START
    assert vocabulary.id("</S>") == END
    assert vocabulary.id("<UNK>") == UNKNOWN


def test_words_have_their_places_as_ids(vocabulary: Vocabulary) -> None:
    assert [vocabulary.id(word) for word in vocabulary.words] == list(range(len(vocabulary)))
    assert vocabulary.encode(["cat", "nowhere", "the"]).tolist() == [4, UNKNOWN, 3]
    assert vocabulary.encode([]).tolist() == []


@given(st.dictionaries(WORDS, COUNTS, max_size=20))
def test_a_file_gives_back_the_vocabulary(counts: dict[str, int]) -> None:
    made = Vocabulary((*SPECIAL_WORDS, *counts), (7, 7, 3, *counts.values()))
    with TemporaryDirectory() as folder:
        path = Path(folder, "vocabulary.txt")
        made.save(path)
        assert Vocabulary.load(path) == made


@given(st.lists(WORDS, min_size=1), st.integers(1, 4), st.none() | st.integers(3, 12))
def test_cut_by_count_and_size(tokens: list[str], min_count: int, max_size: int | None) -> None:
    ranked = Counter(tokens).most_common()
    made = build_vocabulary(
        [word for word, _ in ranked],
        [count for _, count in ranked],
        boundaries=5,
        min_count=min_count,
        max_size=max_size,
    )
    expected = [(word, count) for word, count in ranked if count >= min_count]
    if max_size is not None:
        expected = expected[: max_size - 3]
    assert list(zip(made.words, made.counts, strict=True))[3:] == expected
    assert made.counts[:2] == (5, 5)
    # Whatever was cut off, the running words are all accounted for.
    assert sum(made.counts[2:]) == len(tokens)


def test_unknown_rate_is_the_share_of_running_words(vocabulary: Vocabulary) -> None:
    words, counts = ["the", "unheard", "cat", "of"], np.array([5, 2, 10, 3])
    assert vocabulary.unknown_rate(words, counts) == 5 / 20
    assert vocabulary.unknown_rate([], np.array([], np.int64)) == 0


def test_growing_keeps_every_old_id(vocabulary: Vocabulary) -> None:
    grown = vocabulary.grown(["cat", "new", "the", "newer"], [100, 4, 100, 2])
    assert grown.words == (*vocabulary.words, "new", "newer")
    assert grown.counts == (*vocabulary.counts, 4, 2)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("<S>\t1\n</S>\t1\n<UNK>\t0\na 1\n", "line 4: expected a word, a tab and a count"),
        ("<S>\t1\n</S>\t1\n<UNK>\t0\n\t1\n", "line 4"),
        ("<S>\t1\n</S>\t1\n<UNK>\t0\na\t-1\n", "line 4"),
        ("<S>\t1\n</S>\t1\n<UNK>\t0\na\t²\n", "line 4"),
        ("<S>\t1\n</S>\t1\n<UNK>\t0\na\t1\nb\t2\na\t3\n", "holds 'a' twice"),
        ("a\t1\nb\t1\n", "must start with <S>, </S>, <UNK>"),
        ("", "line 1"),
    ],
)
def test_a_broken_file_is_told(tmp_path: Path, content: str, problem: str) -> None:
    path = tmp_path / "vocabulary.txt"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(UserError, match=problem) as raised:
        Vocabulary.load(path)
    assert str(path) in str(raised.value)


def test_words_without_counts_are_refused() -> None:
    with pytest.raises(UserError, match="3 words but 2 counts"):
        Vocabulary(SPECIAL_WORDS, (1, 1))


def test_counts_of_a_corpus_need_no_special_words(tmp_path: Path) -> None:
    path = tmp_path / "lexicon.txt"
    path.write_text("b\t3\na\t12\n")
    assert read_counts(path) == (["b", "a"], [3, 12])
