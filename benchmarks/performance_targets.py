"""What is to be reached, and what the files of the benchmarks say of it."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bench_files import BenchFile, Figure
from time_to_quality import OURS
from time_to_quality import PLAIN as PLAIN_CURVE
from training import CORE_TAKEN, PLAIN, preset_name
from using import CLASSIFIER, EMBEDDING, FILE, IMPORTING, POOLED, PREDICTION, WORD_FILE

DEFAULT_FP32, DEFAULT_BF16 = (preset_name("default", one) for one in ("fp32", "bf16"))
LARGE_FILE = 1000
"""Megabytes: a smaller file tells nothing of a large one's memory."""


@dataclass(frozen=True)
class Found:
    """A measured value and how far repeats lie apart."""

    value: float
    lowest: float
    highest: float


Find = Callable[[BenchFile], Found | None]


@dataclass(frozen=True)
class Bound:
    """What a value must be."""

    value: float
    unit: str
    is_lower: bool

    def holds(self, found: Found) -> bool:
        """Whether the median keeps to it."""
        return found.value >= self.value if self.is_lower else found.value < self.value

    def __str__(self) -> str:
        return f"{'≥' if self.is_lower else '<'} {self.value:,g} {self.unit}"


def at_least(value: float, unit: str) -> Bound:
    """More is better."""
    return Bound(value, unit, is_lower=True)


def below(value: float, unit: str) -> Bound:
    """Less is better."""
    return Bound(value, unit, is_lower=False)


@dataclass(frozen=True)
class Target:
    """What is to be reached, which benchmark measures it, and how to find it in its file."""

    what: str
    bound: Bound
    bench: str
    find: Find


def ratio(one: Figure | None, other: Figure | None) -> Found | None:
    """How many times the other it is; what was measured in the same turn is compared."""
    if one is None or other is None:
        return None
    # What was measured only once is the same in every turn.
    turns = max(len(one.values), len(other.values))
    ones, others = (each * turns if len(each) == 1 else each for each in (one.values, other.values))
    ratios = [mine / theirs for mine, theirs in zip(ones, others, strict=True)]
    return Found(statistics.median(ratios), min(ratios), max(ratios))


def _value(*names: str) -> Find:
    """The first figure of these names that was measured."""

    def find(file: BenchFile) -> Found | None:
        one = next(filter(None, map(file.figure, names)), None)
        return None if one is None else Found(one.median, one.lowest, one.highest)

    return find


def _ratio(name: str, other: str) -> Find:
    return lambda file: ratio(file.figure(name), file.figure(other))


def _share_kept(file: BenchFile) -> Found | None:
    for alone in (DEFAULT_BF16, DEFAULT_FP32):
        found = ratio(file.figure(f"{alone}, {CORE_TAKEN}"), file.figure(alone))
        if found is not None:
            return Found(100 * found.value, 100 * found.lowest, 100 * found.highest)
    return None


def _training_memory(file: BenchFile) -> Found | None:
    return _peak([one for one in file.figures if one.name in (DEFAULT_BF16, DEFAULT_FP32)])


def _file_memory(file: BenchFile) -> Found | None:
    files = [*file.scale(FILE), *file.scale(WORD_FILE)]
    return _peak([one for one in files if (one.at or 0) >= LARGE_FILE])


def _peak(figures: Sequence[Figure]) -> Found | None:
    if not figures:
        return None
    most = max(one.peak_megabytes for one in figures) / 1000
    return Found(most, most, most)


TARGETS = (
    Target(
        "pre-training, default preset, bf16 units",
        at_least(20_000, "tokens/s"),
        "training",
        _value(DEFAULT_BF16),
    ),
    Target(
        "with bf16 units, against the plain implementation",
        at_least(40, "×"),
        "training",
        _ratio(DEFAULT_BF16, PLAIN),
    ),
    Target(
        "without bf16 units, against the plain implementation",
        at_least(15, "×"),
        "training",
        _ratio(DEFAULT_FP32, PLAIN),
    ),
    Target(
        "pre-training from characters, bf16 units",
        at_least(8_000, "tokens/s"),
        "training",
        _value(preset_name("characters", "bf16")),
    ),
    Target(
        "speed kept beside a process that takes a core", at_least(40, "%"), "training", _share_kept
    ),
    Target(
        "memory of pre-training, default preset", below(2.5, "GB"), "training", _training_memory
    ),
    Target(
        "as good as the plain implementation, sooner by",
        at_least(30, "×"),
        "time_to_quality",
        _ratio(PLAIN_CURVE, OURS),
    ),
    Target(
        "embedding with the shipped model",
        at_least(60_000, "tokens/s"),
        "using",
        _value(f"{EMBEDDING}, bf16", f"{EMBEDDING}, fp32"),
    ),
    Target("7,600 pooled vectors, with start-up", below(10, "s"), "using", _value(POOLED)),
    Target("a classifier on AG News, frozen biLM", below(300, "s"), "using", _value(CLASSIFIER)),
    Target("prediction of a sentence", below(15, "ms"), "using", _value(PREDICTION)),
    Target("`import elmo`", below(0.3, "s"), "using", _value(IMPORTING)),
    Target("memory of embedding a text file of 1 GB", below(2, "GB"), "using", _file_memory),
)
