"""Word vectors by skip-gram with negative sampling, which gensim trains."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from elmo.config import check
from elmo.errors import require_extra
from elmo.static.config import SkipGramConfig
from elmo.static.documents import Documents
from elmo.static.progress import Listener, Progress, ignore
from elmo.static.vectors import StaticVectors
from elmo.text.vocabulary import SPECIAL_WORDS, Vocabulary

LONGEST = 10_000
"""Gensim passes over what lies beyond so many words of a text, so long ones are cut."""
REPORT_EVERY = 1000


def skip_gram_vectors(
    documents: Documents,
    vocabulary: Vocabulary,
    config: SkipGramConfig | None = None,
    progress: Listener = ignore,
) -> StaticVectors:
    """Learn to tell the words around each word from random ones."""
    config = config or SkipGramConfig()
    check(config)
    words, counts = vocabulary.words[len(SPECIAL_WORDS) :], vocabulary.counts[len(SPECIAL_WORDS) :]
    model = _model(config)
    model.build_vocab_from_freq(dict(zip(words, counts, strict=True)))
    sentences = _Sentences(documents, vocabulary.words, config.epochs, progress)
    model.train(
        sentences,
        total_examples=len(documents),
        total_words=sum(counts),
        epochs=config.epochs,
    )
    return StaticVectors(tuple(model.wv.index_to_key), np.array(model.wv.vectors, np.float32))


def _model(config: SkipGramConfig) -> Any:
    word2vec: Any = require_extra("gensim.models.word2vec", "study")
    return word2vec.Word2Vec(
        sg=1,
        hs=0,
        vector_size=config.dim,
        window=config.window,
        negative=config.negatives,
        alpha=config.learning_rate,
        sample=config.subsample,
        seed=config.seed,
        workers=config.threads,
        # The vocabulary has been cut and sorted already.
        min_count=1,
        sorted_vocab=0,
        # Python's own hash of a word is another one each time Python starts.
        hashfxn=_hash,
    )


def _hash(text: str) -> int:
    return zlib.crc32(text.encode("utf-8", "surrogatepass"))


@dataclass
class _Sentences:
    """Texts as gensim wants them: lists of words, as often as it asks."""

    documents: Documents
    words: tuple[str, ...]
    epochs: int
    progress: Listener
    read: int = field(default=0, init=False)

    def __iter__(self) -> Iterator[list[str]]:
        total = self.epochs * len(self.documents)
        for document in self.documents:
            # Unknown words are in no vocabulary of gensim's, which leaves them out itself.
            places: list[int] = document.tolist()
            words = [self.words[place] for place in places]
            for start in range(0, len(words), LONGEST):
                yield words[start : start + LONGEST]
            self.read += 1
            if self.read % REPORT_EVERY == 0:
                self.progress(Progress("training", self.read, total))
