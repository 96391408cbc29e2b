"""Static word vectors, to compare ELMo with: counted and factorised, by skip-gram, or distilled.

Free of torch, since `elmo static --help` imports the settings from here.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from elmo.config import BILM, Count, DropoutRate, Fraction, Positive, Range, check
from elmo.errors import UserError
from elmo.runtime import require_extra
from elmo.static.contextual import ContextualConfig, contextual_vectors
from elmo.static.vectors import Floats, StaticVectors
from elmo.text.config import ReadOptions
from elmo.text.corpus import Corpus, CorpusRequest, prepare
from elmo.text.sources import resolve
from elmo.text.tokenizer import TokenizerConfig
from elmo.text.vocabulary import SPECIAL_WORDS, Vocabulary, chunked

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    from elmo.language_model import LanguageModel

TOKENS_AT_ONCE = 1 << 20  # pairs are counted in chunks of this many tokens; texts are not split
MAX_SENTENCE = 10_000  # gensim ignores words beyond this in a sentence, so longer texts are split
REPORT_EVERY = 1000  # texts between two progress reports of skip-gram

Ids = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class WordsConfig:
    """Settings of both methods."""

    window: Count = 5
    """Context words on either side; contexts do not cross texts."""
    dim: Count = 300
    """Numbers per vector."""
    min_count: Count = 3
    """Words seen less often get no vector and are no context."""
    max_vocabulary: Annotated[int, Range(4)] | None = 100_000
    """Keep at most this many words, the most frequent ones; three of them are special."""
    seed: Annotated[int, Range(0, 2**32 - 1)] = 0
    """The same seed gives the same vectors."""


@dataclass(frozen=True, kw_only=True)
class SvdConfig(WordsConfig):
    """Positive pointwise mutual information, factorised (Levy, Goldberg & Dagan 2015)."""

    distance_weighting: bool = False
    """Count a context word at distance d as 1/d instead of 1."""
    shift: Annotated[float, Range(1)] = 5.0
    """Subtract log(shift) from the mutual information, like this many negative samples; 1: none."""
    context_smoothing: Fraction = 0.75
    """Power of the context counts, so that rare contexts weigh less; 1: none."""
    eigenvalue_power: Fraction = 0.5
    """Vectors are U S^p: 0 leaves the singular values out, 1 takes them whole."""
    iterations: Annotated[int, Range(0)] = 5
    """Power iterations of the randomised factorisation; more are closer to the exact one."""


@dataclass(frozen=True, kw_only=True)
class SkipGramConfig(WordsConfig):
    """Skip-gram with negative sampling (Mikolov et al. 2013), as gensim computes it."""

    negatives: Count = 5
    """Random words that each true context word is told apart from."""
    epochs: Count = 10
    """Passes over the text."""
    learning_rate: Positive = 0.025
    """At the start; it falls linearly to almost 0."""
    subsample: DropoutRate = 1e-3
    """Words more frequent than this fraction of the text are dropped at random; 0: none."""
    threads: Count = 1
    """One thread gives the same vectors for the same seed; more are faster but not repeatable."""


StaticConfig = SvdConfig | SkipGramConfig


# Called with the stage of the work, how many texts are done, and of how many if that is known.
Listener = Callable[[str, int, int | None], None]


def _ignored(stage: str, done: int, total: int | None) -> None:
    """The default listener."""


class TrainedVectors(NamedTuple):
    """Static vectors, and the size of the text they were made of."""

    vectors: StaticVectors
    documents: int
    tokens: int  # running words, unknown ones included


class Documents(Protocol):
    """Texts as ids of a vocabulary, without boundaries; may be iterated over several times."""

    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[Ids]: ...


def train_static(
    sources: Sequence[str] | str,
    config: StaticConfig | ContextualConfig | None = None,
    *,
    model: LanguageModel | Path | str = BILM,
    read: ReadOptions | None = None,
    tokenizer: TokenizerConfig | None = None,
    held_out_share: float = 0.02,
    cache: Path | None = None,
    progress: Listener = _ignored,
) -> TrainedVectors:
    """Train vectors on files, folders, patterns, '-' or 'ag_news', by the method of the config.

    `model` is the biLM that `ContextualConfig` distils, and whose tokenizer cuts the texts.
    `held_out_share` is the fraction of the texts left out: those that `elmo pretrain` holds out.
    """
    config = config or SvdConfig()
    check(config)
    if not 0 <= held_out_share < 1:
        raise UserError(
            f"held_out_share: expected a fraction from 0 to below 1, got {held_out_share}"
        )
    loaded: LanguageModel | None = None
    if isinstance(config, ContextualConfig):
        from elmo.language_model import open_model

        loaded = open_model(model) if isinstance(model, Path | str) else model
        tokenizer = loaded.tokenizer
    request = CorpusRequest(
        sources=resolve(sources),
        read=read or ReadOptions(),
        tokenizer=tokenizer or TokenizerConfig(),
        held_out_share=held_out_share,
    )
    corpus = prepare(
        request, cache=cache, progress=lambda done: progress("preparing the text", done, None)
    )
    vocabulary = corpus.vocabulary(config.min_count, config.max_vocabulary)
    if isinstance(config, ContextualConfig):
        assert loaded is not None
        words, total = np.array(corpus.words, object), corpus.train.documents
        vectors = contextual_vectors(
            (
                words[shard.ids[start + 1 : end - 1]].tolist()
                for shard in corpus.train
                for start, end in zip(shard.starts.tolist(), shard.ends.tolist(), strict=True)
            ),
            vocabulary,
            loaded,
            config,
            lambda done: progress("reading the text", done, total),
        )
    else:
        vectors = static_vectors(CorpusDocuments(corpus, vocabulary), vocabulary, config, progress)
    return TrainedVectors(vectors, corpus.train.documents, corpus.tokens)


def static_vectors(
    documents: Documents,
    vocabulary: Vocabulary,
    config: StaticConfig,
    progress: Listener = _ignored,
) -> StaticVectors:
    """Train vectors on texts in memory, by the method whose settings are given."""
    if isinstance(config, SvdConfig):
        return svd_vectors(documents, vocabulary, config, progress)
    return skip_gram_vectors(documents, vocabulary, config, progress)


# The texts: the same tokens, vocabulary and split as a biLM's.


class CorpusDocuments:
    """The training texts of a prepared corpus, one shard in memory at a time."""

    def __init__(self, corpus: Corpus, vocabulary: Vocabulary) -> None:
        self._corpus = corpus
        self._ids = vocabulary.encode(corpus.words)

    def __len__(self) -> int:
        return self._corpus.train.documents

    def __iter__(self) -> Iterator[Ids]:
        for shard in self._corpus.train:
            ids = self._ids[shard.ids]
            for start, end in zip(shard.starts.tolist(), shard.ends.tolist(), strict=True):
                yield ids[start + 1 : end - 1]


# By counting: pairs of words, their positive pointwise mutual information, its factors.


def svd_vectors(
    documents: Documents,
    vocabulary: Vocabulary,
    config: SvdConfig | None = None,
    progress: Listener = _ignored,
) -> StaticVectors:
    config = config or SvdConfig()
    check(config)
    special = len(SPECIAL_WORDS)
    words = len(vocabulary) - special
    if config.dim > words:
        raise UserError(
            f"dim: vectors of {config.dim} numbers need at least as many words, but there are "
            f"{words}; use --dim {words} or less, or give more text"
        )
    progress("counting pairs of words", 0, len(documents))
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
    progress(f"factorising {information.nnz:,} pairs", 0, None)
    return StaticVectors(vocabulary.words[special:], factorise(information, config)[special:])


def count_pairs(
    documents: Iterable[Ids], words: int, *, window: int, distance_weighting: bool = False
) -> csr_array:
    """Symmetric counts, (words, words), of two words of a text at most `window` positions apart.

    Boundaries and unknown words occupy a position but are never counted.
    """
    sparse: Any = require_extra("scipy.sparse", "study")
    following = sparse.csr_array((words, words), dtype=np.float64)
    for chunk in chunked(documents, len, TOKENS_AT_ONCE):
        ids = np.concatenate(chunk)
        texts = np.repeat(np.arange(len(chunk)), [len(document) for document in chunk])
        is_word = ids >= len(SPECIAL_WORDS)
        nearby = sparse.csr_array(following.shape, dtype=np.float64)
        # One vectorised step per distance instead of a Python loop over words.
        for distance in range(1, window + 1):
            mask = texts[:-distance] == texts[distance:]
            mask &= is_word[:-distance] & is_word[distance:]
            first, second = ids[:-distance][mask], ids[distance:][mask]
            weights = np.full(len(first), 1 / distance if distance_weighting else 1.0)
            pairs = sparse.coo_array((weights, (first, second)), shape=following.shape)
            nearby = nearby + pairs.tocsr()
        following = following + nearby
    return (following + following.T).tocsr()


def ppmi(counts: csr_array, *, shift: float = 1.0, context_smoothing: float = 0.75) -> csr_array:
    """max(0, log P(w, c) / (P(w) P'(c)) - log shift), with P'(c) ~ #(c)^smoothing; sparse."""
    sparse: Any = require_extra("scipy.sparse", "study")
    pairs: Any = counts.tocoo()
    words, contexts = pairs.coords
    of_word = pairs.sum(axis=1)
    of_context = pairs.sum(axis=0) ** context_smoothing
    chance = of_word[words] * (of_context[contexts] / of_context.sum())
    information = np.log(pairs.data / chance) - np.log(shift)
    mask = information > 0
    return sparse.csr_array(
        (information[mask].astype(np.float32), (words[mask], contexts[mask])), shape=pairs.shape
    )


def factorise(matrix: csr_array, config: SvdConfig) -> Floats:
    """U S^p of the largest singular values, (rows, dim)."""
    extmath: Any = require_extra("sklearn.utils.extmath", "study")
    left, values, _ = extmath.randomized_svd(
        matrix, config.dim, n_iter=config.iterations, random_state=config.seed, flip_sign=True
    )
    return np.asarray(left * values**config.eigenvalue_power, np.float32)


# By skip-gram, which gensim trains.


def skip_gram_vectors(
    documents: Documents,
    vocabulary: Vocabulary,
    config: SkipGramConfig | None = None,
    progress: Listener = _ignored,
) -> StaticVectors:
    """Learn to tell the words around each word from random ones."""
    config = config or SkipGramConfig()
    check(config)
    word2vec: Any = require_extra("gensim.models.word2vec", "study")
    model = word2vec.Word2Vec(
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
        # Python's own hash of a word changes each time Python starts.
        hashfxn=_crc32,
    )
    words, counts = vocabulary.words[len(SPECIAL_WORDS) :], vocabulary.counts[len(SPECIAL_WORDS) :]
    model.build_vocab_from_freq(dict(zip(words, counts, strict=True)))
    model.train(
        Sentences(documents, vocabulary.words, config.epochs, progress),
        total_examples=len(documents),
        total_words=sum(counts),
        epochs=config.epochs,
    )
    return StaticVectors(tuple(model.wv.index_to_key), np.array(model.wv.vectors, np.float32))


def _crc32(text: str) -> int:
    return zlib.crc32(text.encode("utf-8", "surrogatepass"))


class Sentences:
    """Texts as gensim takes them: lists of words, iterated over once per epoch."""

    def __init__(
        self, documents: Documents, words: Sequence[str], epochs: int, progress: Listener
    ) -> None:
        self._documents, self._words, self._progress = documents, words, progress
        self._done, self._total = 0, epochs * len(documents)

    def __iter__(self) -> Iterator[list[str]]:
        for document in self._documents:
            # Unknown words stay in: gensim does not know them either and skips them itself.
            ids: list[int] = document.tolist()
            words = [self._words[index] for index in ids]
            for start in range(0, len(words), MAX_SENTENCE):
                yield words[start : start + MAX_SENTENCE]
            self._done += 1
            if self._done % REPORT_EVERY == 0:
                self._progress("training", self._done, self._total)
