"""Static vectors of a study's training texts, without the texts that a biLM holds out."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from elmo.classify.own_words import own_vocabulary
from elmo.errors import UserError
from elmo.files import sha256
from elmo.static.config import SkipGramConfig, StaticConfig, SvdConfig
from elmo.static.documents import encode_texts
from elmo.static.progress import Progress
from elmo.static.train import static_vectors
from elmo.study.data import StudyData
from elmo.study.progress import OnShare
from elmo.text.held_out import is_held_out
from elmo.text.vocabulary import SPECIAL_WORDS


@dataclass(frozen=True, kw_only=True)
class VectorsMade:
    """Vectors that were written to a file."""

    words: int
    dim: int
    seconds: float
    sha256: str


def static_config(method: str, window: int, dim: int) -> StaticConfig:
    """The settings of a method, the same for every window."""
    kind = SvdConfig if method == "svd" else SkipGramConfig
    return kind(window=window, dim=dim)


def vectors_work(config: StaticConfig) -> float:
    """How long a text takes, against one in one epoch of a training on the vectors: about."""
    return 0.6 if isinstance(config, SvdConfig) else 3 + 1.3 * config.window


def make_vectors(
    data: StudyData,
    config: StaticConfig,
    held_out_share: float,
    path: Path,
    on_share: OnShare = lambda share: None,
) -> VectorsMade:
    """Make vectors of the training texts, labels unseen, and write them."""
    started = time.monotonic()
    texts = [data.words[int(row)] for row in data.train]
    texts = [words for words in texts if words and not is_held_out(words, held_out_share)]
    vocabulary = own_vocabulary(texts, config.min_count)
    if len(vocabulary) == len(SPECIAL_WORDS):
        raise UserError(f"no word is seen {config.min_count} times; give more text")

    def tell(progress: Progress) -> None:
        if progress.total:
            on_share(progress.done / progress.total)

    vectors = static_vectors(encode_texts(texts, vocabulary), vocabulary, config, tell)
    path.parent.mkdir(parents=True, exist_ok=True)
    vectors.save(path)
    return VectorsMade(
        words=len(vectors),
        dim=vectors.dim,
        seconds=time.monotonic() - started,
        sha256=sha256(path),
    )
