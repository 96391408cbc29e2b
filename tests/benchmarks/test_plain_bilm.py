"""What our training is measured against is a biLM: it cannot see the answer, and it learns."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from plain_bilm import PlainBiLM, documents_of, held_out, padded, train

WORDS = 11
documents = st.lists(st.lists(st.integers(0, WORDS - 1), min_size=2, max_size=9), min_size=1)


@pytest.fixture(scope="module")
def model() -> PlainBiLM:
    torch.manual_seed(0)
    return PlainBiLM(WORDS, vector=5, hidden=6)


def tensors(rows: list[list[int]]) -> list[torch.Tensor]:
    return [torch.tensor(row) for row in rows]


def test_it_has_the_size_of_the_course_projects():
    numbers = sum(one.numel() for one in PlainBiLM().parameters())
    words, vector, cells = 78_717, 100, 256
    layer = 4 * cells * (cells + cells) + 2 * 4 * cells
    entry = words * vector + vector * cells + cells
    assert numbers == entry + 2 * 2 * layer + cells * words + words


@given(place=st.integers(1, 8))
def test_a_word_changes_only_what_is_predicted_behind_it(model: PlainBiLM, place: int):
    before = torch.arange(9)[None] % WORDS
    after = before.clone()
    after[0, place] = 10
    for lstm in (model.forward_lstm, model.backward_lstm):
        same = model.scores(lstm, before) == model.scores(lstm, after)
        assert same[0, :place].all()
        assert not same[0, place:].all(dim=1).any()


def test_the_backward_direction_reads_from_the_end():
    batch = padded(tensors([[0, 5, 6, 1], [0, 7, 1]]))
    assert batch.forward.tolist() == [[0, 5, 6, 1], [0, 7, 1, -1]]
    assert batch.backward.tolist() == [[1, 6, 5, 0], [1, 7, 0, -1]]
    assert batch.targets == 5


@given(rows=documents)
def test_held_out_text_is_judged_word_by_word(model: PlainBiLM, rows: list[list[int]]):
    losses: list[float] = []
    for row in rows:
        for lstm, words in ((model.forward_lstm, row), (model.backward_lstm, row[::-1])):
            chances = model.scores(lstm, torch.tensor([words]))[0].detach().softmax(dim=1)
            losses += [-math.log(chances[step, word]) for step, word in enumerate(words[1:])]
    found = held_out(model, tensors(rows))
    assert found.predicted == len(losses) // 2
    assert found.perplexity == pytest.approx(math.exp(sum(losses) / len(losses)), rel=1e-5)


def test_it_learns():
    torch.manual_seed(0)
    model = PlainBiLM(WORDS, vector=8, hidden=16)
    texts = tensors([[0, *range(2 + first, 6 + first), 1] for first in range(4)] * 16)
    start = held_out(model, texts)
    steps = train(model, texts, rate=0.03)
    assert sum(next(steps) for _ in range(60)) == 60 * 16 * 5
    assert start.perplexity > 9
    # One word of five is there to be guessed, out of four; the others follow from it.
    assert 4 ** (1 / 5) < held_out(model, texts).perplexity < 1.5


def test_documents_are_those_of_the_corpus(text, tmp_path):
    from elmo.text.corpus import load_corpus
    from elmo.text.vocabulary import UNKNOWN, Vocabulary
    from timed_training import prepared

    corpus = load_corpus(prepared(str(text), tmp_path))
    known = Vocabulary(("<S>", "</S>", "<UNK>", "w0"), (0, 0, 0, 0))
    parts = [documents_of(corpus, part, known) for part in (corpus.train, corpus.held_out)]
    found = sorted(tuple(one.tolist()) for part in parts for one in part)
    lines = text.read_text().splitlines()
    wanted = [(0, *(3 if word == "w0" else UNKNOWN for word in line.split()), 1) for line in lines]
    assert found == sorted(wanted)
