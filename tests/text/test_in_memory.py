"""Texts in memory give the batches that the same texts on disk would give."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from elmo.text.batches import Batch, Reading
from elmo.text.batching_config import Batching
from elmo.text.in_memory import group_texts, read_texts
from elmo.text.vocabulary import BEGIN, END, Vocabulary

WORDS = ("<S>", "</S>", "<UNK>", *(f"w{number}" for number in range(400)))
VOCABULARY = Vocabulary(WORDS, (1,) * len(WORDS))
LENGTHS = st.lists(st.integers(1, 25), min_size=1, max_size=12)


def unique_texts(lengths: list[int]) -> list[list[str]]:
    """Texts of so many words, each word a new one."""
    words = iter(WORDS[3:])
    return [[next(words) for _ in range(length)] for length in lengths]


def steps(batch: Batch, reading: Reading, column: int) -> list[int]:
    """What one text has a direction read in this window."""
    length = int(reading.lengths[column])
    return batch.words.ids[reading.inputs[:length, column]].tolist()


@given(LENGTHS, st.integers(2, 9), st.integers(0, 60))
def test_each_text_is_read_once_in_both_directions(
    lengths: list[int], window: int, room: int
) -> None:
    texts = unique_texts(lengths)
    batching = Batching(window=window, batch_tokens=window + room)
    seen: list[int] = []
    for group in group_texts(texts, VOCABULARY, batching, spelled=False):
        batches = list(group.batches)
        assert [batch.starts for batch in batches] == [True] + [False] * (len(batches) - 1)
        for column, number in enumerate(group.texts.tolist()):
            ids = VOCABULARY.encode(texts[number]).tolist()
            ahead = [word for batch in batches for word in steps(batch, batch.forward, column)]
            behind = [word for batch in batches for word in steps(batch, batch.backward, column)]
            assert ahead == [BEGIN, *ids]
            assert behind == [END, *reversed(ids)]
            seen.append(number)
        assert all(batch.forward.inputs.numel() <= batching.batch_tokens for batch in batches)
    assert sorted(seen) == list(range(len(texts)))


@given(LENGTHS, st.sampled_from(["documents", "stream"]))
def test_any_number_of_texts_is_read_without_keeping_them(lengths: list[int], kind: str) -> None:
    texts = unique_texts(lengths)
    batching = Batching(batching=kind, window=5, batch_tokens=20)  # pyright: ignore
    batches = list(read_texts(iter(texts), VOCABULARY, batching, spelled=False))
    asked = sorted(word for batch in batches for word in batch.forward.targets.tolist())
    words = [word for text in texts for word in text]
    expected = sorted([*VOCABULARY.encode(words).tolist(), *[END] * len(texts)])
    assert asked == expected


def test_no_texts_give_no_batches() -> None:
    assert list(group_texts([], VOCABULARY, Batching(), spelled=True)) == []
    assert list(read_texts([], VOCABULARY, Batching(), spelled=True)) == []
