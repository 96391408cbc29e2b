"""How static word vectors are made: by counting and factorising, or by skip-gram."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

LARGEST_SEED = 2**32 - 1


@dataclass(frozen=True, kw_only=True)
class WordsConfig:
    """What both methods need to know: which words, how near, how long the vectors."""

    window: int = 5
    """A word's context is so many words before it and so many behind it, never another text's."""
    dim: int = 300
    """Numbers a vector."""
    min_count: int = 3
    """Words seen less often get no vector, and are no context."""
    max_vocabulary: int | None = 100_000
    """At most so many words, the most frequent ones."""
    seed: int = 0
    """The same seed gives the same vectors."""

    def problems(self) -> Iterable[str]:
        """Yield what is wrong with these settings."""
        for name in ("window", "dim", "min_count"):
            if getattr(self, name) < 1:
                yield f"{name}: must be positive, got {getattr(self, name)}"
        if self.max_vocabulary is not None and self.max_vocabulary < 4:
            yield f"max_vocabulary: at least 4 (three are special), got {self.max_vocabulary}"
        if not 0 <= self.seed <= LARGEST_SEED:
            yield f"seed: expected a number from 0 to {LARGEST_SEED}, got {self.seed}"


@dataclass(frozen=True, kw_only=True)
class SvdConfig(WordsConfig):
    """Positive pointwise mutual information, factorised (Levy, Goldberg & Dagan 2015)."""

    distance_weighting: bool = False
    """Whether a context word at distance d counts 1/d instead of 1."""
    shift: float = 5.0
    """Log of it is taken off the mutual information, as by so many negative samples; 1: nothing."""
    context_smoothing: float = 0.75
    """Power that context counts are raised to, so that rare contexts weigh less; 1: none."""
    eigenvalue_power: float = 0.5
    """Vectors are U S^p: 0 leaves singular values out, 1 takes them whole."""
    iterations: int = 5
    """Power iterations of the randomised factorisation; more are nearer to the exact one."""

    def problems(self) -> Iterable[str]:
        """Yield what is wrong with these settings."""
        yield from super().problems()
        if not 1 <= self.shift < float("inf"):
            yield f"shift: expected 1 (none) or more, got {self.shift}"
        for name in ("context_smoothing", "eigenvalue_power"):
            if not 0 <= getattr(self, name) <= 1:
                yield f"{name}: expected a power from 0 to 1, got {getattr(self, name)}"
        if self.iterations < 0:
            yield f"iterations: cannot be negative, got {self.iterations}"


@dataclass(frozen=True, kw_only=True)
class SkipGramConfig(WordsConfig):
    """Skip-gram with negative sampling (Mikolov et al. 2013), as gensim computes it."""

    negatives: int = 5
    """Random words that each true context word is told apart from."""
    epochs: int = 10
    """How often the text is read."""
    learning_rate: float = 0.025
    """At the start; it falls in a line to almost nothing."""
    subsample: float = 1e-3
    """Words more frequent than this share of the text are left out at random; 0: none are."""
    threads: int = 1
    """With one, the same seed gives the same vectors; more are faster, and never quite the same."""

    def problems(self) -> Iterable[str]:
        """Yield what is wrong with these settings."""
        yield from super().problems()
        for name in ("negatives", "epochs", "threads"):
            if getattr(self, name) < 1:
                yield f"{name}: must be positive, got {getattr(self, name)}"
        if not 0 < self.learning_rate < float("inf"):
            yield f"learning_rate: must be positive, got {self.learning_rate}"
        if not 0 <= self.subsample < 1:
            yield f"subsample: expected a share from 0 to below 1, got {self.subsample}"


StaticConfig = SvdConfig | SkipGramConfig
