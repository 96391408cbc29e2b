"""How much is studied: rows, seeds, analyses; three presets."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

LARGEST_SEED = 2**31 - 1


@dataclass(frozen=True, kw_only=True)
class StudyConfig:
    """What a study computes; each row of its comparison has the same classifier and budget."""

    rows: tuple[str, ...] = ()
    """Rows of the comparison by name, such as tfidf, svd-5, layer-1, trainable, fine-tuned, or by
    kind: control, static, svd, skipgram, elmo, mixes. None: all of them."""
    seeds: tuple[int, ...] = (0, 1, 2)
    """Each row is trained once a seed; the first one's predictions are those compared in pairs."""
    windows: tuple[int, ...] = (2, 5, 8)
    """Context windows of SVD and skip-gram, a row each."""
    static_dim: int = 300
    """Numbers a static vector."""
    own_words: int = 128
    """Size of the word vectors that every row's classifier learns for itself beside those it is
    given, as the paper's [x; ELMo]; 0: none."""
    word_vectors: str | None = None
    """Own word vectors begin as those of this file, in word2vec's format or GloVe's."""
    epochs: int = 3
    """How often a classifier reads the training rows; the last epoch counts that is no more than a
    standard error below the best on development rows."""
    tuning_epochs: int = 2
    """The same while its settings are chosen."""
    least_steps: int = 200
    """Of few rows more epochs are read, so that a classifier has so many steps at least."""
    development_share: float = 0.05
    """Share of the training rows that settings and epochs are chosen by."""
    tuning_rows: int = 7_000
    """Each row's settings are chosen by training on so many rows, at most."""
    fine_tune_epochs: int = 2
    """How often the texts are read while the biLM itself learns, in the row fine-tuned."""
    fine_tune_seeds: int = 1
    """How many of the seeds the row fine-tuned gets; it takes longest."""
    samples: tuple[int, ...] = (10, 50, 250, 1000, 5000)
    """Labels a class, for the curve of accuracy against their number."""
    draws: int = 12
    """How many draws of frozen weights are compared."""
    draw_rows: int = 10_000
    """Each draw is trained on so many rows, at most."""
    sweeps: tuple[str, ...] = ()
    """Settings to vary, such as window=1,3,10 dim=50,100 hidden=128,512 mix-pull=0,0.001,1 or
    learning-rate=0.001,0.01; hidden is that of a biLM, trained anew for every value."""
    sweep_rows: int = 20_000
    """Each value of a sweep is tried on so many rows, at most."""
    words: tuple[str, ...] = (
        "bank", "pitch", "court", "apple", "run", "strike", "chip", "virus", "match", "cell",
    )  # fmt: skip
    """Ambiguous words whose neighbours are shown; those that the texts do not hold are left out."""
    test_share: float = 0.2
    """Share of the rows that becomes the test part where none is given."""

    def problems(self) -> Iterable[str]:
        """Yield what is wrong with these settings."""
        yield from self._list_problems()
        for name in (
            "epochs",
            "tuning_epochs",
            "tuning_rows",
            "static_dim",
            "draw_rows",
            "sweep_rows",
            "least_steps",
        ):
            if getattr(self, name) < 1:
                yield f"{name}: must be positive, got {getattr(self, name)}"
        for name in ("own_words", "fine_tune_epochs", "fine_tune_seeds", "draws"):
            if getattr(self, name) < 0:
                yield f"{name}: cannot be negative, got {getattr(self, name)}"
        for name in ("development_share", "test_share"):
            if not 0 < getattr(self, name) < 1:
                yield f"{name}: expected a share between 0 and 1, got {getattr(self, name)}"

    def _list_problems(self) -> Iterable[str]:
        if not self.seeds or len(set(self.seeds)) != len(self.seeds):
            yield f"seeds: expected one or more, each once; got {list(self.seeds)}"
        if any(not 0 <= seed <= LARGEST_SEED for seed in self.seeds):
            yield f"seeds: expected numbers from 0 to {LARGEST_SEED}, got {list(self.seeds)}"
        for name in ("windows", "samples"):
            values = getattr(self, name)
            if any(value < 1 for value in values) or len(set(values)) != len(values):
                yield f"{name}: expected positive numbers, each once; got {list(values)}"


QUICK = StudyConfig(
    seeds=(0,),
    static_dim=100,
    own_words=64,
    epochs=2,
    least_steps=60,
    tuning_rows=1_500,
    fine_tune_epochs=1,
    samples=(10, 50, 250),
    draws=6,
    draw_rows=1_500,
    sweep_rows=3_000,
    words=("bank", "pitch", "court", "Apple"),
)
STANDARD = StudyConfig()
FULL = StudyConfig(
    seeds=(0, 1, 2, 3, 4),
    windows=(1, 2, 5, 8, 12),
    tuning_rows=50_000,
    fine_tune_seeds=5,
    draws=30,
    draw_rows=50_000,
    sweep_rows=100_000,
    sweeps=("dim=50,100,300", "mix-pull=0,0.001,1", "learning-rate=0.0003,0.001,0.003,0.01"),
)
PRESETS = {"quick": QUICK, "standard": STANDARD, "full": FULL}
