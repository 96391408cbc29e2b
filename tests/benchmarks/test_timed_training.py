"""Speed is words over time, of the steps that are timed and no others."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count, islice
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from tests.benchmarks.conftest import TINY

import plain_bilm
import timed_training
from elmo.text.batching import WordTable, read_steps
from elmo.text.corpus import Corpus, load_corpus
from elmo.training.config import VocabularyConfig
from timed_training import WARM_UP, our_speed, plain_speed, prepared, vocabulary_of, with_precision


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

    monkeypatch.setattr(timed_training, "train_plain", train)
    assert plain_speed(50, corpus.folder, 2.5, 1) == (10 + 20 + 60) / 3
    assert asked == [50, corpus.train.documents, 49]


def test_the_vocabulary_is_what_a_run_would_have(corpus: Corpus, text: Path, tmp_path: Path):
    from dataclasses import replace

    from elmo.training.pretrain import Surroundings, pretrain

    words = VocabularyConfig(min_count=2, max_vocabulary=100)
    once = replace(TINY, vocabulary=words, training=replace(TINY.training, epochs=1))
    around = Surroundings(cache=tmp_path / "cache")
    made = pretrain(str(text), tmp_path / "run", once, surroundings=around)
    assert vocabulary_of(corpus, words) == made.model.vocabulary


def test_precision_is_all_that_changes():
    coarse = with_precision(TINY, "bf16")
    assert coarse.training.precision == "bf16"
    assert with_precision(coarse, TINY.training.precision) == TINY
