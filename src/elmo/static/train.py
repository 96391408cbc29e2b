"""From sources and settings to static vectors, over the same words that a biLM would read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from elmo.config import check
from elmo.errors import UserError
from elmo.static.config import StaticConfig, SvdConfig
from elmo.static.documents import CorpusDocuments, Documents, corpus_vocabulary
from elmo.static.progress import Listener, Progress, ignore
from elmo.static.skip_gram import skip_gram_vectors
from elmo.static.svd import svd_vectors
from elmo.static.vectors import StaticVectors
from elmo.text.corpus import CorpusRequest, prepare
from elmo.text.sources import ReadOptions, resolve
from elmo.text.tokenizers import TokenizerConfig
from elmo.text.vocabulary import Vocabulary


@dataclass(frozen=True)
class TrainedVectors:
    """Static vectors, and the text they were made of."""

    vectors: StaticVectors
    documents: int
    tokens: int
    """Running words, unknown ones included."""


def train_static(
    sources: Sequence[str] | str,
    config: StaticConfig | None = None,
    *,
    read: ReadOptions | None = None,
    tokenizer: TokenizerConfig | None = None,
    held_out_share: float = 0.02,
    cache: Path | None = None,
    progress: Listener = ignore,
) -> TrainedVectors:
    """Make vectors of files, folders, patterns, '-' or 'ag_news'.

    What a biLM with the same share would hold out is not read here either.
    """
    config = config or SvdConfig()
    check(config)
    _check_share(held_out_share)
    request = CorpusRequest(
        sources=resolve([sources] if isinstance(sources, str) else sources),
        read=read or ReadOptions(),
        tokenizer=tokenizer or TokenizerConfig(),
        held_out_share=held_out_share,
    )
    corpus = prepare(
        request,
        cache=cache,
        progress=lambda number: progress(Progress("preparing the text", number)),
    )
    vocabulary = corpus_vocabulary(corpus, config)
    vectors = static_vectors(CorpusDocuments(corpus, vocabulary), vocabulary, config, progress)
    return TrainedVectors(vectors, corpus.train.documents, corpus.tokens)


def static_vectors(
    documents: Documents,
    vocabulary: Vocabulary,
    config: StaticConfig,
    progress: Listener = ignore,
) -> StaticVectors:
    """Make vectors of texts in memory, by the method whose settings are given."""
    if isinstance(config, SvdConfig):
        return svd_vectors(documents, vocabulary, config, progress)
    return skip_gram_vectors(documents, vocabulary, config, progress)


def _check_share(share: float) -> None:
    if not 0 <= share < 1:
        raise UserError(f"held_out_share: expected a share from 0 to below 1, got {share}")
