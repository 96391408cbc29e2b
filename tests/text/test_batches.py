"""A batch holds each direction's path through its texts, and what comes next on it."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from elmo.text.batches import Batch, Reading, WordTable, make_batch, sentence_batch
from elmo.text.characters import spell
from elmo.text.vocabulary import BEGIN, END, UNKNOWN, Vocabulary

WORDS = st.sampled_from(["the", "cat", "sat", "naïve", "雨", "unheard", "of"])
SENTENCES = st.lists(st.lists(WORDS, max_size=7), min_size=1, max_size=5)


def paths(batch: Batch, reading: Reading) -> list[list[int]]:
    """The vocabulary ids that each text of a batch has a direction read."""
    return [
        batch.words.ids[reading.inputs[:length, column]].tolist()
        for column, length in enumerate(reading.lengths.tolist())
    ]


def questions(reading: Reading) -> dict[tuple[int, int], int]:
    """What is to be predicted at each (step, text)."""
    batch = reading.inputs.shape[1]
    places = [divmod(place, batch) for place in reading.asked.tolist()]
    assert len(places) == len(set(places))
    return dict(zip(places, reading.targets.tolist(), strict=True))


def expected_questions(texts: list[list[int]]) -> dict[tuple[int, int], int]:
    return {
        (step, column): text[step + 1]
        for column, text in enumerate(texts)
        for step in range(len(text) - 1)
    }


@given(SENTENCES)
def test_sentences_are_read_in_both_directions(sentences: list[list[str]]) -> None:
    vocabulary = tiny()
    batch = sentence_batch(sentences, vocabulary, spelled=False)
    ahead = [[BEGIN, *(vocabulary.id(word) for word in one), END] for one in sentences]
    behind = [text[::-1] for text in ahead]
    assert paths(batch, batch.forward) == [text[:-1] for text in ahead]
    assert paths(batch, batch.backward) == [text[:-1] for text in behind]
    assert questions(batch.forward) == expected_questions(ahead)
    assert questions(batch.backward) == expected_questions(behind)
    assert batch.starts
    assert batch.targets == sum(len(one) + 1 for one in sentences)


@given(SENTENCES)
def test_each_distinct_word_is_there_once_with_its_spelling(sentences: list[list[str]]) -> None:
    batch = sentence_batch(sentences, tiny(), spelled=True)
    spellings = batch.words.spellings
    assert spellings is not None
    expected = {tuple(spell(word)) for one in sentences for word in ["<S>", "</S>", *one]}
    found = list(map(tuple, spellings.tolist()))
    assert len(found) == len(set(found))
    assert set(found) == expected
    for column, sentence in enumerate(sentences):
        for step, word in enumerate(["<S>", *sentence]):
            place = batch.forward.inputs[step, column]
            assert spellings[place].tolist() == spell(word).tolist()


def test_unknown_words_differ_in_spelling_only() -> None:
    batch = sentence_batch([["unheard", "of"]], tiny(), spelled=True)
    assert paths(batch, batch.forward) == [[BEGIN, UNKNOWN, UNKNOWN]]
    assert len(batch.words.ids) == 4
    assert sentence_batch([["a"]], tiny(), spelled=False).words.spellings is None


def test_the_boundary_a_direction_starts_from_is_not_asked_for() -> None:
    # Running text: the end of a document, and all of the next one.
    text = np.array([5, END, BEGIN, 4, END])
    table = WordTable.of(tiny().words, tiny(), spelled=False)
    batch = make_batch([text], [text[::-1]], table, starts=False)
    assert questions(batch.forward) == {(0, 0): END, (2, 0): 4, (3, 0): END}
    assert questions(batch.backward) == {(0, 0): 4, (1, 0): BEGIN, (3, 0): 5}
    assert not batch.starts


def test_a_text_already_read_has_no_steps() -> None:
    table = WordTable.of(tiny().words, tiny(), spelled=False)
    rows = [np.array([BEGIN, 4, 5]), np.array([6])]
    batch = make_batch(rows, [row[::-1] for row in rows], table, starts=False)
    assert batch.forward.lengths.tolist() == [2, 0]
    assert questions(batch.forward) == {(0, 0): 4, (1, 0): 5}


def test_words_of_a_corpus_are_seen_through_a_vocabulary() -> None:
    table = WordTable.of(["<S>", "</S>", "<UNK>", "sat", "elsewhere"], tiny(), spelled=True)
    words = table.select(np.array([4, 3]))
    assert words.ids.tolist() == [UNKNOWN, tiny().id("sat")]
    assert words.spellings is not None
    assert words.spellings.tolist() == [spell("elsewhere").tolist(), spell("sat").tolist()]


def test_a_batch_moves_whole() -> None:
    batch = sentence_batch([["the", "cat"]], tiny(), spelled=True).to(torch.device("meta"))
    assert batch.words.spellings is not None
    tensors = [batch.words.ids, batch.words.spellings]
    for reading in batch.readings:
        tensors += [reading.inputs, reading.lengths, reading.asked, reading.targets]
    assert {tensor.device.type for tensor in tensors} == {"meta"}


def tiny() -> Vocabulary:
    words = ("<S>", "</S>", "<UNK>", "the", "cat", "sat", "on", "naïve", "雨")
    return Vocabulary(words, tuple(range(len(words))))
