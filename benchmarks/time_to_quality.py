"""How long ours takes to become as good as the plain implementation is after half an hour.

    python benchmarks/time_to_quality.py [--plain-seconds 1800] [--epochs 1]

Perplexities can be compared only if the same is predicted. So here the plain one (training.py)
gets our vocabulary, built from the same training rows, instead of its 78,717 words: both know the
same words and take the same for unknown. Both are asked for the same positions of the same held-out
rows: every word and the one boundary that a direction comes to, over the full softmax. That their
number is the same is checked. Fewer words also make the plain one faster.

The plain one trains once, for the seconds given; its perplexity is then the one to reach. Ours is
the default preset with the schedule of a run of --epochs, evaluated often, with as many seeds as
there are repeats; it is there at the first evaluation that is no worse. Seconds are those of
training, from a fresh model on, without evaluations and without preparing the text, which is the
same for both. Writes docs/performance/time_to_quality.json.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch

from elmo.text.corpus import load_corpus
from elmo.training.config import DEFAULT, PretrainConfig
from elmo.training.loop import EvaluationReport, Report
from harness import Case, Curve, Figure, Outcome, calmly, flags, refuse_busy, write_found
from training import (
    RATE,
    SEED,
    PlainBiLM,
    documents_of,
    held_out,
    prepared,
    run_ours,
    train,
    vocabulary_of,
)

UNIT = "s"
PLAIN, OURS = "plain", "ours"
LOOKS = (0.125, 0.25, 0.5, 1.0)
"""The shares of its time after which the plain one is evaluated."""


def main(command: Sequence[str] | None = None) -> None:
    """Train both, and write what was found."""
    parser = flags(__doc__)
    parser.add_argument("--plain-seconds", type=float, default=1800.0)
    parser.add_argument("--plain-rate", type=float, default=RATE, help="learning rate of Adam")
    parser.add_argument("--epochs", type=int, default=1, help="that our schedule is made for")
    parser.add_argument("--evaluations", type=int, default=50, help="of ours, an epoch")
    given = parser.parse_args(command)
    before = refuse_busy(anyway=given.anyway)
    text = prepared(given.source, given.scratch / "cache")
    plain = calmly(plain_case(given, text), anyway=given.anyway)
    wanted = plain.value.perplexity[-1]
    ours = [
        calmly(our_case(given, text, seed, wanted), anyway=given.anyway)
        for seed in range(given.repeats)
    ]
    check_comparable(plain.value, [one.value for one in ours], wanted)
    figures = [figure(PLAIN, [plain]), figure(OURS, ours)]
    curves = [plain.value, *(one.value for one in ours)]
    write_found("time_to_quality", given.folder, before, figures, curves)


def plain_case(given: argparse.Namespace, text: Path) -> Case[Curve]:
    """The plain one, with the time it is given."""
    arguments = (text, given.plain_seconds, given.plain_rate, given.threads)
    return Case(name=PLAIN, unit=UNIT, work=plain_curve, arguments=arguments)


def our_case(given: argparse.Namespace, text: Path, seed: int, wanted: float) -> Case[Curve]:
    """The default preset, with another schedule and more evaluations."""
    training = replace(
        DEFAULT.training,
        epochs=given.epochs,
        evaluations_per_epoch=given.evaluations,
        evaluation_tokens=10**9,
        seed=seed,
    )
    arguments = (text, replace(DEFAULT, training=training), wanted, given.threads)
    return Case(name=f"{OURS}, seed {seed}", unit=UNIT, work=our_curve, arguments=arguments)


def plain_curve(folder: Path, seconds: float, rate: float, threads: int) -> Curve:
    """Train the plain one for some seconds, and look at it now and then."""
    torch.set_num_threads(threads)
    corpus = load_corpus(folder)
    vocabulary = vocabulary_of(corpus, DEFAULT.vocabulary)
    documents, unseen = (
        documents_of(corpus, part, vocabulary) for part in (corpus.train, corpus.held_out)
    )
    progress = Progress(PLAIN)
    torch.manual_seed(SEED)
    model = PlainBiLM(len(vocabulary))
    steps = train(model, documents, seed=SEED, rate=rate)
    for share in LOOKS:
        while progress.spent < share * seconds:
            progress.trained(progress.tokens + next(steps))
        seen = held_out(model, unseen)
        progress.evaluated(seen.perplexity, seen.predicted)
    return progress.curve()


def our_curve(folder: Path, config: PretrainConfig, wanted: float, threads: int) -> Curve:
    """Train ours until it is as good, or its schedule has ended."""
    torch.set_num_threads(threads)
    progress = Progress(f"{OURS}, seed {config.training.seed}")

    def is_as_good() -> bool:
        return bool(progress.perplexity) and progress.perplexity[-1] <= wanted

    def look(report: Report) -> None:
        if is_as_good():
            return  # a run may do one more step before it stops
        if isinstance(report, EvaluationReport):
            evaluation = report.evaluation
            progress.evaluated(evaluation.perplexity, evaluation.forward.targets)
        else:
            progress.trained(report.targets)

    run_ours(config, load_corpus(folder), look, is_as_good)
    return progress.curve()


def check_comparable(plain: Curve, ours: Sequence[Curve], wanted: float) -> None:
    """Make sure that all were asked for the same, and that ours got there."""
    for one in ours:
        if one.predicted != plain.predicted:
            sys.exit(f"{one.name}: asked for {one.predicted} words, plain for {plain.predicted}")
        if one.perplexity[-1] > wanted:
            sys.exit(
                f"{one.name}: ended at perplexity {one.perplexity[-1]:.1f} and never reached the "
                f"plain one's {wanted:.1f}; try more --epochs"
            )


def figure(name: str, outcomes: Sequence[Outcome[Curve]]) -> Figure:
    """The seconds it took."""
    return Figure.of(
        name,
        UNIT,
        [one.value.seconds[-1] for one in outcomes],
        peak_megabytes=max(one.peak_megabytes for one in outcomes),
        cores_of_others=max(one.cores_of_others for one in outcomes),
    )


@dataclass
class Progress:
    """A curve as it grows, with a clock that stands still during evaluations."""

    name: str
    spent: float = 0.0
    tokens: int = 0
    seconds: list[float] = field(default_factory=list)
    seen: list[int] = field(default_factory=list)
    perplexity: list[float] = field(default_factory=list)
    predicted: int = 0
    since: float = field(default_factory=lambda: time.perf_counter())

    def trained(self, tokens: int) -> None:
        """Training has come so far."""
        now = time.perf_counter()
        self.spent, self.since, self.tokens = self.spent + now - self.since, now, tokens

    def evaluated(self, perplexity: float, predicted: int) -> None:
        """An evaluation is over, and training goes on."""
        self.seconds.append(self.spent)
        self.seen.append(self.tokens)
        self.perplexity.append(perplexity)
        self.predicted = predicted
        line = f"{self.name}: {self.spent:,.1f} s, {self.tokens:,} tokens, {perplexity:,.1f}"
        print(line, file=sys.stderr, flush=True)
        self.since = time.perf_counter()

    def curve(self) -> Curve:
        """What has become of it."""
        return Curve(
            name=self.name,
            seconds=tuple(self.seconds),
            tokens=tuple(self.seen),
            perplexity=tuple(self.perplexity),
            predicted=self.predicted,
        )


if __name__ == "__main__":
    main()
