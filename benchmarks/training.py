"""Tokens per second of pre-training: our presets against a plain course-project biLM.

    python benchmarks/training.py [--repeats 5] [--seconds 20]

The plain one has the same LSTM size, a softmax over 78,717 words and fp32 products. Ours are the
presets as `elmo pretrain` uses them, in fp32 and, where the processor has units for it, in bf16;
and once more while another process takes a core. All are measured in turn. A token counts once,
although both directions read it. Writes docs/performance/training.json.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader

from elmo.bilm.model import BiLM, seeded
from elmo.runtime import compute_precision, has_bf16_units, keep_freed_memory
from elmo.text.corpus import Corpus, Shards, load_corpus
from elmo.text.vocabulary import SPECIAL_WORDS, Vocabulary, build_vocabulary
from elmo.training.config import CHARACTERS, DEFAULT, PretrainConfig, VocabularyConfig
from elmo.training.distributed import World
from elmo.training.loop import Listener, Report, StepReport
from elmo.training.loop import train as train_ours
from elmo.training.pretrain import RunConfig, prepared_corpus
from harness import Case, flags, in_turn, refuse_busy, write_found

# A biLM as a good course project writes it: what our training is measured against.
#
# Nothing in it is slow on purpose, and nothing is clever: PyTorch's own embedding, LSTM, softmax
# over all words and Adam; documents in random order, sixteen a batch, padded to the longest; one
# loop. Each direction is a stack of its own that predicts the word it will read next, so neither
# sees what it must predict; both share embedding and softmax, as in the paper. There is no
# dropout, which would only make the first epoch slower.

WORDS = 78_717
DOCUMENTS_A_BATCH = 16
RATE = 1e-3
PADDING = -1
"""Stands behind the end of a document: never a word, never asked for."""


class Padded(NamedTuple):
    """The same documents from the left and from the right, boundaries included."""

    forward: Tensor  # (documents, longest)
    backward: Tensor  # (documents, longest)

    @property
    def targets(self) -> int:
        """How many words each direction must predict."""
        return int((self.forward[:, 1:] != PADDING).sum())


@dataclass(frozen=True)
class HeldOut:
    """How well held-out text is predicted."""

    perplexity: float
    """Of both directions together: the exponential of their mean loss."""
    predicted: int
    """Words that each direction was asked for."""


class PlainBiLM(nn.Module):
    """Two LSTM stacks over one embedding and one softmax."""

    def __init__(self, words: int = WORDS, vector: int = 100, hidden: int = 256, layers: int = 2):
        super().__init__()
        self.embedding = nn.Embedding(words, vector)
        self.project = nn.Linear(vector, hidden)
        self.forward_lstm = nn.LSTM(hidden, hidden, layers, batch_first=True)
        self.backward_lstm = nn.LSTM(hidden, hidden, layers, batch_first=True)
        self.softmax = nn.Linear(hidden, words)

    def forward(self, batch: Padded, reduction: str = "mean") -> Tensor:
        """The loss a word, or summed, averaged over the directions."""
        forward = self._loss(self.forward_lstm, batch.forward, reduction)
        backward = self._loss(self.backward_lstm, batch.backward, reduction)
        return (forward + backward) / 2

    def scores(self, lstm: nn.LSTM, ids: Tensor) -> Tensor:
        """What stands behind each word, (documents, steps, words), for one direction."""
        vectors = self.project(self.embedding(ids.clamp(min=0)))
        states, _ = lstm(vectors)
        return self.softmax(states)

    def _loss(self, lstm: nn.LSTM, ids: Tensor, reduction: str) -> Tensor:
        scores = self.scores(lstm, ids[:, :-1])
        targets = ids[:, 1:].flatten()
        return cross_entropy(
            scores.flatten(0, 1), targets, ignore_index=PADDING, reduction=reduction
        )


def train(
    model: PlainBiLM, documents: Sequence[Tensor], *, seed: int = 0, rate: float = RATE
) -> Iterator[int]:
    """Train epoch after epoch; yield after each step how many words a direction has predicted."""
    optimizer = torch.optim.Adam(model.parameters(), lr=rate)
    order = torch.Generator().manual_seed(seed)
    batches = DataLoader(
        documents,  # type: ignore[arg-type]  # it is indexed and has a length: that is all it takes
        batch_size=DOCUMENTS_A_BATCH,
        shuffle=True,
        collate_fn=padded,
        generator=order,
    )
    while True:
        for batch in batches:
            optimizer.zero_grad()
            loss = model(batch)
            loss.backward()
            optimizer.step()
            yield batch.targets


@torch.no_grad()
def held_out(model: PlainBiLM, documents: Sequence[Tensor]) -> HeldOut:
    """Predict every word of some documents, and the boundary at the end of each."""
    loss, predicted = 0.0, 0
    batches = DataLoader(
        documents,  # type: ignore[arg-type]
        batch_size=DOCUMENTS_A_BATCH,
        collate_fn=padded,
    )
    for batch in batches:
        loss += float(model(batch, reduction="sum"))
        predicted += batch.targets
    return HeldOut(math.exp(loss / predicted), predicted)


def padded(documents: Sequence[Tensor]) -> Padded:
    """Make a batch of documents."""
    backward = [document.flip(0) for document in documents]
    return Padded(
        *(
            pad_sequence(list(rows), batch_first=True, padding_value=PADDING)
            for rows in (documents, backward)
        )
    )


def documents_of(corpus: Corpus, shards: Shards, vocabulary: Vocabulary) -> list[Tensor]:
    """The documents of a part of a corpus as the ids of a vocabulary, boundaries included."""
    ids = vocabulary.encode(corpus.words)
    return [
        torch.from_numpy(ids[np.asarray(shard.ids[start:end])])
        for shard in shards
        for start, end in zip(shard.starts.tolist(), shard.ends.tolist(), strict=True)
    ]


# Training with a clock beside it: ours, in the loop that people run, and the plain one.


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
    steps = train(PlainBiLM(words), documents_of(corpus, corpus.train, known), seed=SEED)
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
    with seeded(config.training.seed):
        model = BiLM(config.model, vocabulary)
    model.compute_dtype = compute_precision(config.training.precision, model.device)
    with TemporaryDirectory() as checkpoints:
        train_ours(
            model,
            corpus,
            config,
            checkpoints=Path(checkpoints),
            checkpoint=None,
            keep_best=lambda position, evaluation: None,
            report=report,
            stop=stop,
            world=World(),
        )


def prepared(source: str, cache: Path) -> Path:
    """Where the ids of a text are, made ready if they are not."""
    run = RunConfig(sources=(source,))
    return prepared_corpus(run, DEFAULT, cache=cache).folder


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


UNIT = "tokens/s"
PLAIN = "plain"
CORE_TAKEN = "one core taken"


def main(command: Sequence[str] | None = None) -> None:
    """Measure, and write what was found."""
    parser = flags(__doc__)
    parser.add_argument("--plain-words", type=int, default=WORDS, help="of the plain one's softmax")
    given = parser.parse_args(command)
    before = refuse_busy(anyway=given.anyway)
    text = prepared(given.source, given.scratch / "cache")
    figures = in_turn(cases(given, text), given.repeats, anyway=given.anyway)
    write_found("training", given.folder, before, figures)


def cases(given: argparse.Namespace, text: Path) -> list[Case[float]]:
    """What is measured."""
    for_all = (text, given.seconds, given.threads)
    found = [Case(name=PLAIN, unit=UNIT, work=plain_speed, arguments=(given.plain_words, *for_all))]
    for preset, config in (("default", DEFAULT), ("characters", CHARACTERS)):
        for precision in precisions():
            settings = (with_precision(config, precision), *for_all)
            name = preset_name(preset, precision)
            found.append(Case(name=name, unit=UNIT, work=our_speed, arguments=settings))
    fastest = precisions()[-1]
    found.append(
        Case(
            name=preset_name("default", fastest, CORE_TAKEN),
            unit=UNIT,
            work=our_speed,
            arguments=(with_precision(DEFAULT, fastest), *for_all),
            one_core_taken=True,
        )
    )
    return found


def preset_name(preset: str, precision: str, *circumstances: str) -> str:
    """What a case is called in the results."""
    return ", ".join((preset, precision, *circumstances))


if __name__ == "__main__":
    main()
