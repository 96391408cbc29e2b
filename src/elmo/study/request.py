"""What to study, on which texts, and where the results go."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from elmo.pretrain.config import PretrainConfig
from elmo.study.config import StudyConfig
from elmo.study.data import LabelledParts


@dataclass(frozen=True, kw_only=True)
class StudyRequest:
    """A study to be done, or gone on with."""

    parts: LabelledParts
    out: Path
    config: StudyConfig
    model: Path | None = None
    """A biLM that was trained before; none: one is trained on the training texts."""
    pretraining: PretrainConfig
    feature_memory: float | None = None
    shows_texts: bool = True
    senses: Path | None = None
    """Where the senses of ambiguous words in the test part are known."""
    preset: str = ""
    command: str = ""
