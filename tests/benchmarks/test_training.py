"""What our training is measured against is a biLM: it cannot see the answer, and it learns."""

from __future__ import annotations

import math
from argparse import Namespace
from collections.abc import Iterator
from itertools import count, islice
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.benchmarks.conftest import TINY

import training
import training as plain_bilm
import training as timed_training
from elmo.text.batching import WordTable, read_steps
from elmo.text.corpus import Corpus, load_corpus
from elmo.training.config import VocabularyConfig
from harness import read_bench
from training import (
    WARM_UP,
    PlainBiLM,
    documents_of,
    held_out,
    our_speed,
    padded,
    plain_speed,
    prepared,
    train,
    vocabulary_of,
    with_precision,
)

# Ours and the plain one are measured side by side, on the same text.


def names(found: object) -> list[str]:
    return [one.name for one in found]  # type: ignore[attr-defined]


@pytest.mark.parametrize("bf16", [True, False])
def test_bf16_is_measured_where_there_are_units_for_it(monkeypatch, bf16):
    has = ["fp32", "bf16"] if bf16 else ["fp32"]
    monkeypatch.setattr(training, "precisions", lambda: has)
    given = Namespace(plain_words=9, seconds=1.0, threads=2)
    cases = training.cases(given, Path("text"))
    presets = [f"{preset}, {one}" for preset in ("default", "characters") for one in has]
    assert names(cases) == ["plain", *presets, f"default, {has[-1]}, one core taken"]
    assert [case.one_core_taken for case in cases] == [False] * (len(cases) - 1) + [True]
    assert all(case.arguments[1:] == (Path("text"), 1.0, 2) for case in cases)
    precisions = [case.arguments[0].training.precision for case in cases[1:]]
    assert precisions == [*has, *has, has[-1]]


def test_every_case_has_its_speed_and_memory(results: Path):
    found = read_bench(results / "training.json")
    assert names(found.figures)[:2] == ["plain", "default, fp32"]
    for figure in found.figures:
        assert len(figure.values) == 2
        assert 0 < figure.lowest <= figure.median <= figure.highest
        assert figure.peak_megabytes > 100  # torch alone takes more


# Speed is words over time, of the steps that are timed and no others.


@pytest.fixture(scope="module")
def corpus(text: Path, tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    return load_corpus(prepared(str(text), tmp_path_factory.mktemp("cache")))


@pytest.fixture
def a_second_each_look(monkeypatch: pytest.MonkeyPatch, at_once: None) -> None:
    """A clock that is a second later each time it is looked at."""
    seconds = count()
    clock = SimpleNamespace(perf_counter=lambda: float(next(seconds)))
    monkeypatch.setattr(timed_training, "time", clock)


@pytest.mark.usefixtures("a_second_each_look")
def test_our_speed_is_that_of_all_steps_but_the_first(corpus: Corpus):
    table = WordTable.of(corpus.words, vocabulary_of(corpus, TINY.vocabulary), spelled=False)
    steps = read_steps(corpus.train, table, TINY.batching, (TINY.training.seed, 0))
    # A run asks whether to stop before it reports a step: three seconds later it takes one more.
    words = [step.forward_targets for step in islice(steps, 1 + 3 + 1)]
    assert our_speed(TINY, corpus.folder, 3.0, 1) == sum(words[1:]) / 4


@pytest.mark.usefixtures("a_second_each_look")
def test_the_text_is_read_again_if_it_ends(corpus: Corpus):
    words = corpus.train.targets
    longest = int(3 * words / TINY.batching.batch_tokens)
    assert our_speed(TINY, corpus.folder, float(longest), 1) * longest > 2 * words


@pytest.mark.usefixtures("a_second_each_look")
def test_the_plain_ones_first_steps_do_not_count(corpus: Corpus, monkeypatch: pytest.MonkeyPatch):
    yielded = iter([1000] * WARM_UP + [10, 20, 60, 1000])
    asked: list[int] = []

    def train(model: plain_bilm.PlainBiLM, texts: list[torch.Tensor], seed: int) -> Iterator[int]:
        asked.extend((model.softmax.out_features, len(texts), max(map(torch.max, texts))))
        return yielded

    monkeypatch.setattr(timed_training, "train", train)
    assert plain_speed(50, corpus.folder, 2.5, 1) == (10 + 20 + 60) / 3
    assert asked == [50, corpus.train.documents, 49]


def test_the_vocabulary_is_what_a_run_would_have(corpus: Corpus, text: Path, tmp_path: Path):
    from dataclasses import replace

    from elmo.training.pretrain import pretrain

    words = VocabularyConfig(min_count=2, max_vocabulary=100)
    once = replace(TINY, vocabulary=words, training=replace(TINY.training, epochs=1))
    made = pretrain(str(text), tmp_path / "run", once, cache=tmp_path / "cache")
    assert vocabulary_of(corpus, words) == made.model.vocabulary


def test_precision_is_all_that_changes():
    coarse = with_precision(TINY, "bf16")
    assert coarse.training.precision == "bf16"
    assert with_precision(coarse, TINY.training.precision) == TINY


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
    from training import prepared

    corpus = load_corpus(prepared(str(text), tmp_path))
    known = Vocabulary(("<S>", "</S>", "<UNK>", "w0"), (0, 0, 0, 0))
    parts = [documents_of(corpus, part, known) for part in (corpus.train, corpus.held_out)]
    found = sorted(tuple(one.tolist()) for part in parts for one in part)
    lines = text.read_text().splitlines()
    wanted = [(0, *(3 if word == "w0" else UNKNOWN for word in line.split()), 1) for line in lines]
    assert found == sorted(wanted)
