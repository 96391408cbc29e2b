"""Training with a clock beside it: ours, in the loop that people run, and the plain one."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from elmo.runtime import keep_freed_memory
from elmo.text.corpus import Corpus, Shards, load_corpus
from elmo.text.vocabulary import SPECIAL_WORDS, Vocabulary, build_vocabulary
from elmo.training.config import DEFAULT, PretrainConfig, VocabularyConfig
from elmo.training.distributed import World
from elmo.training.loop import train as train_ours
from elmo.training.optim import compute_precision, has_bf16_units
from elmo.training.pretrain import RunConfig, fresh_model, prepared_corpus
from elmo.training.reports import Listener, Report, StepReport
from plain_bilm import PlainBiLM, documents_of
from plain_bilm import train as train_plain

SEED = 0
WARM_UP = 2
"""Steps of the plain one that pay for what is made only once. Ours: all before the first report."""
EPOCHS = 1000
"""More than any measurement lasts."""


def our_speed(config: PretrainConfig, folder: Path, seconds: float, threads: int) -> float:
    """Words a second that each direction is trained on, reading and reporting included."""
    torch.set_num_threads(threads)
    endless = replace(config, training=replace(config.training, epochs=EPOCHS))
    corpus = replace(load_corpus(folder), held_out=Shards(folder / "nothing"))
    clock = _Clock(seconds)
    run_ours(endless, corpus, clock.look, clock.is_over)
    return clock.speed


def plain_speed(words: int, folder: Path, seconds: float, threads: int) -> float:
    """The same of the plain implementation, with a softmax over so many words."""
    torch.set_num_threads(threads)
    torch.manual_seed(SEED)
    corpus = load_corpus(folder)
    known = vocabulary_of(corpus, VocabularyConfig(min_count=1, max_vocabulary=words))
    steps = train_plain(PlainBiLM(words), documents_of(corpus, corpus.train, known), seed=SEED)
    for _ in range(WARM_UP):
        next(steps)
    started, predicted, elapsed = time.perf_counter(), 0, 0.0
    while elapsed < seconds:
        predicted += next(steps)
        elapsed = time.perf_counter() - started
    return predicted / elapsed


def run_ours(
    config: PretrainConfig, corpus: Corpus, report: Listener, stop: Callable[[], bool]
) -> None:
    """Train a fresh model until told to stop, as `elmo pretrain` does."""
    keep_freed_memory()
    vocabulary = vocabulary_of(corpus, config.vocabulary)
    model = fresh_model(config.model, vocabulary, config.training.seed)
    model.compute_dtype = compute_precision(config.training.precision, model.device)
    with TemporaryDirectory() as checkpoints:
        train_ours(
            model,
            corpus,
            config,
            checkpoints=Path(checkpoints),
            checkpoint=None,
            keep=lambda position, evaluation: None,
            report=report,
            stop=stop,
            world=World(),
        )


def prepared(source: str, cache: Path) -> Path:
    """Where the ids of a text are, made ready if they are not."""
    run = RunConfig(sources=(source,))
    return prepared_corpus(run, DEFAULT, cache=cache, tokenizer=None).folder


def vocabulary_of(corpus: Corpus, config: VocabularyConfig) -> Vocabulary:
    """The words of a corpus that a model with these settings knows."""
    special = len(SPECIAL_WORDS)
    return build_vocabulary(
        corpus.words[special:],
        corpus.counts[special:].tolist(),
        boundaries=corpus.train.documents,
        min_count=config.min_count,
        max_size=config.max_vocabulary,
    )


def precisions() -> list[str]:
    """The number formats worth measuring here, the fastest last."""
    return ["fp32", "bf16"] if has_bf16_units(torch.device("cpu")) else ["fp32"]


def with_precision(config: PretrainConfig, precision: str) -> PretrainConfig:
    """The same settings in another number format."""
    return replace(config, training=replace(config.training, precision=precision))


class _Clock:
    """Looks at the reports of a run, which come right behind a step."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._times: list[float] = []
        self._targets: list[int] = []

    def look(self, report: Report) -> None:
        assert isinstance(report, StepReport), "nothing is held out, so nothing is evaluated"
        self._times.append(time.perf_counter())
        self._targets.append(report.targets)

    def is_over(self) -> bool:
        return len(self._times) > 1 and self._times[-1] - self._times[0] >= self._seconds

    @property
    def speed(self) -> float:
        return (self._targets[-1] - self._targets[0]) / (self._times[-1] - self._times[0])
