"""The words that static vectors are made of: the same ids, vocabulary and split as a biLM's."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from elmo.errors import UserError
from elmo.static.config import WordsConfig
from elmo.text.corpus import Corpus
from elmo.text.vocabulary import SPECIAL_WORDS, Vocabulary, build_vocabulary

Ids = NDArray[np.int64]


class Documents(Protocol):
    """Texts as ids of a vocabulary, without boundaries, to be gone through as often as need be."""

    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[Ids]: ...


@dataclass(frozen=True)
class CorpusDocuments:
    """The training texts of a prepared corpus, one shard in memory at a time."""

    corpus: Corpus
    vocabulary: Vocabulary

    def __len__(self) -> int:
        return self.corpus.train.documents

    def __iter__(self) -> Iterator[Ids]:
        ids = self.vocabulary.encode(self.corpus.words)
        for shard in self.corpus.train:
            known = ids[shard.ids]
            for start, end in zip(shard.starts.tolist(), shard.ends.tolist(), strict=True):
                yield known[start + 1 : end - 1]


def encode_texts(texts: Iterable[Sequence[str]], vocabulary: Vocabulary) -> list[Ids]:
    """Texts that are cut into words already, as ids."""
    return [vocabulary.encode(text) for text in texts]


def corpus_vocabulary(corpus: Corpus, config: WordsConfig) -> Vocabulary:
    """The words of a corpus that get vectors."""
    special = len(SPECIAL_WORDS)
    vocabulary = build_vocabulary(
        corpus.words[special:],
        corpus.counts[special:].tolist(),
        boundaries=corpus.train.documents,
        min_count=config.min_count,
        max_size=config.max_vocabulary,
    )
    if len(vocabulary) == special:
        raise UserError(
            f"no word is seen {config.min_count} times; lower --min-count or give more text"
        )
    return vocabulary
