"""How much is studied: rows, seeds, analyses; three presets."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Literal

from elmo.config import Count, Range

LARGEST_SEED = 2**31 - 1
MAX_WORDS = 400
"""Longer texts are cut."""
LARGE, LARGE_EPOCHS, LEAST_STEPS = 5_000, 4, 1_200  # 340 lost 4 points (docs/experiments.md)
"""From 5,000 rows on, epochs are fixed beforehand: 4, or as many as make 1,200 steps."""
FEW_DEVELOPMENT_ROWS = 300
"""Fewer cannot tell settings apart: at an accuracy of 0.9 their standard error is 0.017."""

Share = Annotated[float, Range(0.0001, 1, "[)")]
Several = Annotated[int, Range(0)]


@dataclass(frozen=True, kw_only=True)
class StudyConfig:
    """What a study computes; each row of its comparison has the same classifier and budget."""

    rows: tuple[str, ...] = ()
    """Rows of the comparison by name, such as tfidf, svd-5, distilled, layer-1, trainable,
    fine-tuned, or by kind: control, static, svd, skipgram, elmo, mixes. Default: all of them."""
    seeds: tuple[int, ...] = (0, 1, 2)
    """Each row is trained once per seed; rows are compared over all of them."""
    windows: tuple[int, ...] = (2, 5, 8)
    """Context windows of SVD and skip-gram, one row each."""
    static_dim: Count = 300
    """Numbers per static vector."""
    word_vectors: tuple[str, ...] = ()
    """Files of word vectors in word2vec's format or GloVe's, one row each."""
    task_dim: Several = 128
    """Size of the task embeddings beside which each embedding is studied a second time, the paper's
    [x; ELMo]; 0: embeddings alone."""
    task_seeds: Several = 1
    """How many of the seeds the second column gets."""
    epochs: Count | None = None
    """Epochs of a classifier. Default: 4 with 5,000 training rows or more, but at least 1,200
    steps; with fewer, until the development loss stops falling, as elmo classify train does."""
    development_share: Share = 0.1
    """Fraction of the training rows by which settings and epochs are chosen."""
    candidates: Annotated[int, Range(1, 3)] = 3
    """Settings that are tried for each row; the same for all."""
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    """dtype of the classifiers' large products, and of all products where the biLM learns; auto:
    bf16 where the processor has units for it."""
    analysis_rows: Count = 10_000
    """Settings are tried, varied and drawn on at most this many rows."""
    analysis_steps: Count = 600
    """Steps of each such training: the same budget for every value."""
    fine_tune_epochs: Several = 2
    """Epochs in which the biLM itself learns, in the row fine-tuned."""
    fine_tune_seeds: Several = 1
    """How many of the seeds the row fine-tuned gets; it takes longest."""
    samples: tuple[int, ...] = (10, 50, 250, 1000, 5000)
    """Labels per class, for the curve of accuracy against their number."""
    draws: Several = 12
    """Draws of frozen weights."""
    sweeps: tuple[str, ...] = (
        "window=1,2,5,8", "dim=50,100,300", "min-count=1,3,10", "hidden=32,64,128", "layers=1,2,3",
        "bilm-epochs=1,2,4", "learning-rate=0.0003,0.001,0.003,0.01", "dropout=0,0.2,0.5",
        "mix-pull=0,0.001,0.01,0.1,1", "function-hidden=16,64,256",
    )  # fmt: skip
    """Settings to vary, each as setting=value,value,…; hidden, layers and bilm-epochs are those of
    small biLMs, one of which is trained for each value."""
    bilm_texts: Count = 10_000
    """Each of these small biLMs is trained on at most this many texts."""
    words: tuple[str, ...] = (
        "bank", "pitch", "court", "apple", "run", "strike", "chip", "virus", "match", "cell",
    )  # fmt: skip
    """Ambiguous words whose neighbours are shown; those that the texts do not hold are left out."""
    test_share: Share = 0.2
    """Fraction of the rows that becomes the test rows where none are given."""

    def problems(self) -> Iterable[str]:
        if not self.seeds or len(set(self.seeds)) != len(self.seeds):
            yield f"seeds: expected one or more, each once; got {list(self.seeds)}"
        if any(not 0 <= seed <= LARGEST_SEED for seed in self.seeds):
            yield f"seeds: expected numbers from 0 to {LARGEST_SEED}, got {list(self.seeds)}"
        for name in ("windows", "samples"):
            values = getattr(self, name)
            if any(value < 1 for value in values) or len(set(values)) != len(values):
                yield f"{name}: expected positive numbers, each once; got {list(values)}"


QUICK = StudyConfig(
    seeds=(0, 1),
    windows=(2, 8),
    static_dim=100,
    task_dim=64,
    candidates=1,
    analysis_rows=1_500,
    analysis_steps=200,
    fine_tune_epochs=1,
    samples=(10, 50, 250),
    draws=6,
    sweeps=(
        "window=2,8", "dim=25,100", "hidden=16,32", "layers=1,2", "bilm-epochs=1,3",
        "learning-rate=0.001,0.003,0.01", "dropout=0,0.2,0.5", "mix-pull=0,0.001,0.01,0.1,1",
        "function-hidden=16,64",
    ),
    bilm_texts=1_500,
    words=("bank", "pitch", "court", "Apple"),
)  # fmt: skip
STANDARD = StudyConfig()
FULL = StudyConfig(
    seeds=(0, 1, 2, 3, 4),
    windows=(1, 2, 5, 8, 12),
    task_seeds=5,
    analysis_rows=50_000,
    analysis_steps=2_000,
    fine_tune_seeds=5,
    draws=30,
    bilm_texts=50_000,
)
PRESETS = {"quick": QUICK, "standard": STANDARD, "full": FULL}
