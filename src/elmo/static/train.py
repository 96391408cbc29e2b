"""Word vectors by skip-gram with negative sampling, which gensim trains."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from elmo.config import check
from elmo.errors import UserError, require_extra
from elmo.static.config import SkipGramConfig, StaticConfig, SvdConfig, WordsConfig
from elmo.static.vectors import Floats, StaticVectors
from elmo.text.config import ReadOptions
from elmo.text.corpus import Corpus, CorpusRequest, prepare
from elmo.text.sources import resolve
from elmo.text.tokenizer import TokenizerConfig
from elmo.text.vocabulary import SPECIAL_WORDS, Vocabulary, build_vocabulary

if TYPE_CHECKING:
    from scipy.sparse import csr_array


# The words that static vectors are made of: the same ids, vocabulary and split as a biLM's.


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


# How often any two words stand near each other, counted without a loop over words.


TOKENS_AT_ONCE = 1 << 20
"""Longer texts than this are still counted at once."""


def count_pairs(
    documents: Iterable[Ids], words: int, *, window: int, distance_weighting: bool = False
) -> csr_array:
    """Symmetric counts (words, words) of two words of a text at most `window` places apart.

    Boundaries and unknown words take up a place, but are never counted.
    """
    sparse: Any = require_extra("scipy.sparse", "study")
    following = sparse.csr_array((words, words), dtype=np.float64)
    for portion in _portions(documents):
        nearby = sparse.csr_array(following.shape, dtype=np.float64)
        for distance in range(1, window + 1):
            first, second = portion.pairs(distance)
            weights = np.full(len(first), 1 / distance if distance_weighting else 1.0)
            pairs = sparse.coo_array((weights, (first, second)), shape=following.shape)
            nearby = nearby + pairs.tocsr()
        following = following + nearby
    return (following + following.T).tocsr()


@dataclass(frozen=True)
class _Portion:
    """Some texts end to end."""

    ids: Ids
    texts: Ids
    """Which text each word is of."""

    def pairs(self, distance: int) -> tuple[Ids, Ids]:
        """All two known words of a text that are so far apart, the earlier ones first."""
        first, second = self.ids[:-distance], self.ids[distance:]
        special = len(SPECIAL_WORDS)
        kept = self.texts[:-distance] == self.texts[distance:]
        kept &= (first >= special) & (second >= special)
        return first[kept], second[kept]


def _portions(documents: Iterable[Ids]) -> Iterator[_Portion]:
    held: list[Ids] = []
    tokens = 0
    for document in documents:
        held.append(document)
        tokens += len(document)
        if tokens >= TOKENS_AT_ONCE:
            yield _end_to_end(held)
            held, tokens = [], 0
    if held:
        yield _end_to_end(held)


def _end_to_end(documents: list[Ids]) -> _Portion:
    lengths = [len(document) for document in documents]
    return _Portion(np.concatenate(documents), np.repeat(np.arange(len(documents)), lengths))


# Counts of pairs become positive pointwise mutual information: what is more often than chance.


def ppmi(counts: csr_array, *, shift: float = 1.0, context_smoothing: float = 0.75) -> csr_array:
    """max(0, log P(w, c) / (P(w) P'(c)) - log shift), with P'(c) ~ #(c)^smoothing; sparse."""
    sparse: Any = require_extra("scipy.sparse", "study")
    pairs: Any = counts.tocoo()
    words, contexts = pairs.coords
    of_word = pairs.sum(axis=1)
    of_context = pairs.sum(axis=0) ** context_smoothing
    chance = of_word[words] * (of_context[contexts] / of_context.sum())
    information = np.log(pairs.data / chance) - np.log(shift)
    kept = information > 0
    return sparse.csr_array(
        (information[kept].astype(np.float32), (words[kept], contexts[kept])), shape=pairs.shape
    )


# How far the making of static vectors is.


@dataclass(frozen=True)
class Progress:
    """What is being done, and how much of it."""

    stage: str
    done: int = 0
    total: int | None = None
    """How many texts there are, where that is known."""


Listener = Callable[[Progress], None]


def ignore(progress: Progress) -> None:
    """Listen to nothing."""


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


# Word vectors by factorising the mutual information of words and their contexts.


def svd_vectors(
    documents: Documents,
    vocabulary: Vocabulary,
    config: SvdConfig | None = None,
    progress: Listener = ignore,
) -> StaticVectors:
    """Count pairs, turn counts into information, factorise it."""
    config = config or SvdConfig()
    check(config)
    _check_size(vocabulary, config)
    progress(Progress("counting pairs of words", 0, len(documents)))
    counts = count_pairs(
        documents,
        len(vocabulary),
        window=config.window,
        distance_weighting=config.distance_weighting,
    )
    information = ppmi(counts, shift=config.shift, context_smoothing=config.context_smoothing)
    if not information.nnz:
        raise UserError(
            "no two words stand together more often than by chance; give more text, or lower "
            "--shift or --min-count"
        )
    progress(Progress(f"factorising {information.nnz:,} pairs"))
    special = len(SPECIAL_WORDS)
    return StaticVectors(vocabulary.words[special:], factorise(information, config)[special:])


def factorise(matrix: csr_array, config: SvdConfig) -> Floats:
    """U S^p of the largest singular values: (rows, dim)."""
    extmath: Any = require_extra("sklearn.utils.extmath", "study")
    left, values, _ = extmath.randomized_svd(
        matrix,
        config.dim,
        n_iter=config.iterations,
        random_state=config.seed,
        flip_sign=True,
    )
    return np.asarray(left * values**config.eigenvalue_power, np.float32)


def _check_size(vocabulary: Vocabulary, config: SvdConfig) -> None:
    words = len(vocabulary) - len(SPECIAL_WORDS)
    if config.dim > words:
        raise UserError(
            f"dim: vectors of {config.dim} numbers need as many words, but there are {words}; "
            f"use --dim {words} or less, or give more text"
        )


# From sources and settings to static vectors, over the same words that a biLM would read.


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
