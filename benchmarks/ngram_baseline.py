"""Interpolated modified Kneser-Ney n-grams (Chen & Goodman, 1999): what a biLM has to beat.

    p(w | h) = (c(hw) - D[c(hw)]) / c(h) + freed(h) / c(h) * p(w | h without its first word)

The highest order counts occurrences; lower ones count the different words seen to the left, except
for n-grams that begin a document, which have nothing to their left. Below the single words lies
the uniform distribution, so every word of the closed vocabulary has a probability.

Written here because NLTK's is neither modified nor made for millions of words, and KenLM has to be
compiled. The model of the other direction is this one fitted on reversed documents.
"""

from __future__ import annotations

import argparse
import gzip
import json
import logging
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from elmo.language_model import open_model
from elmo.text.corpus import Shards
from elmo.text.vocabulary import END, START
from elmo.training.pretrain import read_run, same_corpus

logger = logging.getLogger(__name__)

Ids = NDArray[np.int64]
Floats = NDArray[np.float64]

ABSENT = -1  # the id of an n-gram that was never seen, or would reach beyond its document
FALLBACK_DISCOUNTS = np.array([0.5, 1.0, 1.5])  # for data too small or too odd to estimate them
SMALLEST_DISCOUNT = 1e-3  # with none at all, a word not seen after a context would be impossible


@dataclass(frozen=True, kw_only=True)
class Vocabulary:
    """A closed set of words 0 ... size - 1, two of which mark where a document begins and ends."""

    size: int
    bos: int
    eos: int

    def __post_init__(self) -> None:
        if not (0 <= self.bos < self.size and 0 <= self.eos < self.size and self.bos != self.eos):
            raise ValueError(
                f"bos and eos have to be two different words of the vocabulary: {self}"
            )


@dataclass(frozen=True, kw_only=True)
class Stream:
    """Documents end to end, each between its two marks."""

    words: Ids  # [positions]
    is_start: NDArray[np.bool_]  # [positions], true at <S>, the only word that is never predicted

    def contexts(self, ids: Ids) -> Ids:
        """The id of the n-gram that ends just before each position."""
        return np.where(self.is_start, ABSENT, np.roll(ids, 1))


@dataclass(frozen=True, kw_only=True)
class Level:
    """All n-grams of one length, and what follows each context (n-gram of one word less)."""

    keys: (
        Ids  # [n-grams], context * vocabulary size + word, ascending; the index is the n-gram's id
    )
    counts: Ids  # [n-grams]
    totals: Ids  # [contexts], sum of the counts of all n-grams with this context
    kinds: Ids  # [contexts, 3], how many of them have a count of 1, of 2, of 3 or more


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """What one level knows about some positions: all that probabilities depend on."""

    counts: Ids  # [positions]
    totals: Ids  # [positions], 0 where the context was never seen
    kinds: Ids  # [positions, 3]


@dataclass(frozen=True, kw_only=True)
class KneserNey:
    """A fitted n-gram model."""

    vocabulary: Vocabulary
    levels: tuple[Level, ...]  # one a length, single words first
    discounts: Floats  # [order, 3], taken from counts of 1, of 2, of 3 or more

    def log_probabilities(self, documents: Sequence[Ids]) -> list[Floats]:
        """The natural logarithm of the probability of each word and of the end mark."""
        stream = _stream(documents, self.vocabulary)
        logs = np.log(_probabilities(self.evidence(stream), self.discounts, self.vocabulary))
        return np.split(logs, np.cumsum([len(document) + 1 for document in documents[:-1]]))

    def evidence(self, stream: Stream) -> list[Evidence]:
        """Look up the n-grams of every length that end at each predicted position."""
        found: list[Evidence] = []
        contexts = np.zeros_like(stream.words)  # single words share one empty context
        for level in self.levels:
            ids = _find(level.keys, contexts, stream.words, self.vocabulary)
            found.append(_select(level, ids[~stream.is_start], contexts[~stream.is_start]))
            contexts = stream.contexts(ids)
        return found


def fit(
    documents: Sequence[Ids], *, order: int, vocabulary_size: int, bos: int, eos: int
) -> KneserNey:
    """Count n-grams of up to `order` words and estimate the discounts from the counts."""
    if order < 1:
        raise ValueError(f"order has to be 1 or more, not {order}")
    vocabulary = Vocabulary(size=vocabulary_size, bos=bos, eos=eos)
    levels = _count(_stream(documents, vocabulary), order, vocabulary)
    discounts = np.stack([_estimate_discounts(level.counts) for level in levels])
    return KneserNey(vocabulary=vocabulary, levels=levels, discounts=discounts)


def fit_tuned(
    documents: Sequence[Ids],
    *,
    orders: Sequence[int] = (3, 4, 5),
    vocabulary_size: int,
    bos: int,
    eos: int,
    held_out: float = 0.05,
    seed: int = 0,
) -> KneserNey:
    """Choose order and discounts on a slice of the documents, then count all of them."""
    mixed: list[int] = np.random.default_rng(seed).permutation(len(documents)).tolist()
    size = max(1, round(held_out * len(documents)))
    tuning, rest = ([documents[i] for i in part] for part in (mixed[:size], mixed[size:]))
    choices: list[tuple[float, int, Floats]] = []
    for order in orders:
        model = fit(rest, order=order, vocabulary_size=vocabulary_size, bos=bos, eos=eos)
        loss, discounts = _tune_discounts(model, tuning)
        logger.info("order %d: perplexity %.2f on the tuning slice", order, np.exp(loss))
        choices.append((loss, len(model.levels), discounts))
    _, order, discounts = min(choices, key=lambda choice: choice[0])
    model = fit(documents, order=order, vocabulary_size=vocabulary_size, bos=bos, eos=eos)
    return replace(model, discounts=discounts)


def perplexity(log_probabilities: Sequence[Floats]) -> float:
    """The perplexity over all positions of all documents."""
    return float(np.exp(-np.concatenate(log_probabilities).mean()))


def _stream(documents: Sequence[Ids], vocabulary: Vocabulary) -> Stream:
    if not documents:
        raise ValueError("expected at least one document, got none")
    marked = [[[vocabulary.bos], document, [vocabulary.eos]] for document in documents]
    words = np.concatenate([part for parts in marked for part in parts], dtype=np.int64)
    is_start = np.zeros(len(words), dtype=np.bool_)
    is_start[np.cumsum([0] + [len(document) + 2 for document in documents[:-1]])] = True
    if words.min() < 0 or words.max() >= vocabulary.size:
        raise ValueError(f"ids go up to {vocabulary.size - 1}; got {words.min()}, {words.max()}")
    if np.any((words == vocabulary.bos) & ~is_start):
        raise ValueError(f"the begin mark {vocabulary.bos} is inside a document; it is added here")
    return Stream(words=words, is_start=is_start)


def _count(stream: Stream, order: int, vocabulary: Vocabulary) -> tuple[Level, ...]:
    """Go up one order at a time; the n-grams of one are the contexts of the next."""
    levels: list[Level] = []
    contexts, keys, ids = 1, np.arange(vocabulary.size), stream.words
    for _ in range(order - 1):
        longer_keys, firsts, longer_ids = _index(stream.contexts(ids), stream.words, vocabulary)
        if not len(longer_keys):  # no document has that many words
            break
        at_edge = (ids != ABSENT) & (longer_ids == ABSENT) & ~stream.is_start
        counted = np.concatenate([ids[firsts], ids[at_edge]])
        levels.append(_level(keys, counted, contexts, vocabulary))
        contexts, keys, ids = len(keys), longer_keys, longer_ids
    predicted = (ids != ABSENT) & ~stream.is_start
    return (*levels, _level(keys, ids[predicted], contexts, vocabulary))


def _index(contexts: Ids, words: Ids, vocabulary: Vocabulary) -> tuple[Ids, Ids, Ids]:
    """Number the n-grams: their keys, where each first occurs, and the id at each position."""
    present = np.flatnonzero(contexts != ABSENT)
    occurrences = contexts[present] * vocabulary.size + words[present]
    keys, firsts, inverse = np.unique(occurrences, return_index=True, return_inverse=True)
    ids = np.full_like(words, ABSENT)
    ids[present] = inverse
    return keys, present[firsts], ids


def _level(keys: Ids, counted: Ids, contexts: int, vocabulary: Vocabulary) -> Level:
    """Sum up the counted ids, for each n-gram and for each context."""
    counts = np.bincount(counted, minlength=len(keys))
    owners = keys // vocabulary.size
    totals = np.bincount(owners, weights=counts, minlength=contexts).astype(np.int64)
    cells = owners[counts > 0] * 3 + np.minimum(counts[counts > 0], 3) - 1
    kinds = np.bincount(cells, minlength=contexts * 3).reshape(contexts, 3)
    return Level(keys=keys, counts=counts, totals=totals, kinds=kinds)


def _estimate_discounts(counts: Ids) -> Floats:
    """Chen & Goodman's closed form, from how many n-grams have a count of 1, 2, 3 and 4."""
    n = np.bincount(np.minimum(counts, 5), minlength=6)[1:5].astype(np.float64)
    if not n.all():
        return FALLBACK_DISCOUNTS
    steps = np.arange(1, 4)
    discounts = steps - (steps + 1) * n[0] / (n[0] + 2 * n[1]) * n[1:] / n[:-1]
    return discounts if np.all(discounts >= SMALLEST_DISCOUNT) else FALLBACK_DISCOUNTS


def _find(keys: Ids, contexts: Ids, words: Ids, vocabulary: Vocabulary) -> Ids:
    """The id of each n-gram, ABSENT for those that were never seen."""
    wanted = contexts * vocabulary.size + words
    ids = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where((contexts != ABSENT) & (keys[ids] == wanted), ids, ABSENT)


def _select(level: Level, ids: Ids, contexts: Ids) -> Evidence:
    is_known = contexts != ABSENT
    return Evidence(
        counts=np.where(ids != ABSENT, level.counts[ids], 0),
        totals=np.where(is_known, level.totals[contexts], 0),
        kinds=np.where(is_known[:, None], level.kinds[contexts], 0),
    )


def _probabilities(found: Sequence[Evidence], discounts: Floats, vocabulary: Vocabulary) -> Floats:
    """Interpolate from the uniform distribution up to the highest order."""
    result = np.full(len(found[0].counts), 1 / (vocabulary.size - 1))  # all words but <S>
    for seen, discount in zip(found, discounts, strict=True):
        kept = seen.counts - np.concatenate([[0.0], discount])[np.minimum(seen.counts, 3)]
        freed = seen.kinds @ discount
        mixed = (kept + freed * result) / np.maximum(seen.totals, 1)
        result = np.where(seen.totals > 0, mixed, result)
    return result


def _tune_discounts(model: KneserNey, documents: Sequence[Ids]) -> tuple[float, Floats]:
    """Move one discount at a time, by ever smaller steps, while the loss falls."""
    evidence = model.evidence(_stream(documents, model.vocabulary))

    def loss(discounts: Floats) -> float:
        return float(-np.log(_probabilities(evidence, discounts, model.vocabulary)).mean())

    best, discounts = loss(model.discounts), model.discounts
    for step in (0.1, -0.1, 0.03, -0.03):
        for cell in np.ndindex(*discounts.shape):
            while True:
                moved = discounts.copy()
                moved[cell] = np.clip(moved[cell] + step, SMALLEST_DISCOUNT, cell[1] + 1)
                if (now := loss(moved)) >= best:
                    break
                best, discounts = now, moved
    return best, discounts


# A biLM against a tuned 5-gram model: same text, same split, same vocabulary.
#
#     python benchmarks/ngram_baseline.py RUN [--json] [--text wikitext2-test.txt.gz]
#
# The 5-gram model is an interpolated modified Kneser-Ney model whose discounts are tuned on a part
# of the training text; one is fitted to the text as it is and one to the text reversed. Both models
# are also compared on the held-out texts of which little, or no, eight-word phrase is in the
# training text: copies are where an n-gram model is at its best.


PHRASE = 8
LARGEST_OVERLAPS = (1.0, 0.5, 0.1, 0.0)


def main() -> None:
    """Fit, score, print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("run", type=Path)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--text", type=Path, help="instead of held-out texts, one per line")
    given = parser.parse_args()
    rows = compare(given.run, given.text)
    if given.json:
        print(json.dumps(rows))
        return
    print(f"{'held-out texts':<34}{'texts':>7}{'biLM':>9}{'5-gram':>9}")
    for row in rows:
        print(f"{row['name']:<34}{row['texts']:>7}{row['bilm']:>9.2f}{row['ngram']:>9.2f}")


def compare(folder: Path, text: Path | None = None) -> list[dict[str, str | int | float]]:
    """Perplexity of both models, averaged over the directions, on parts of a text.

    Args:
        folder: the folder of a run; its corpus must still be there.
        text: one document per line, perhaps gzipped; default: the held-out text of the run.
    """
    loaded = open_model(folder)
    run, config = read_run(folder)
    corpus = same_corpus(run, config)
    vocabulary = loaded.model.vocabulary
    ids = vocabulary.encode(corpus.words)
    train = [ids[one] for one in documents(corpus.train)]
    if text is None:
        places = documents(corpus.held_out)
        texts = [[corpus.words[place] for place in one.tolist()] for one in places]
    else:
        opened = gzip.open if text.suffix == ".gz" else open
        with opened(text, "rt", encoding="utf-8") as lines:
            texts = [words for line in lines if (words := loaded.words(line))]
    test = [vocabulary.encode(words) for words in texts]

    started = time.monotonic()
    ngram = ngram_losses(train, test, len(vocabulary))
    print(f"5-gram models fitted and asked in {time.monotonic() - started:.0f} s")
    scored = loaded.score(texts)
    bilm = np.array([-(one.forward.total + one.backward.total) / 2 for one in scored])

    overlaps = overlap(train, test)
    predictions = np.array([len(one) + 1 for one in test])
    rows: list[dict[str, str | int | float]] = []
    for largest in LARGEST_OVERLAPS:
        kept = overlaps <= largest
        total = predictions[kept].sum()
        rows.append(
            {
                "name": "all" if largest == 1 else f"at most {largest:.0%} known phrases",
                "texts": int(kept.sum()),
                "bilm": math.exp(bilm[kept].sum() / total),
                "ngram": math.exp(ngram[kept].sum() / total),
            }
        )
    return rows


def documents(shards: Shards) -> list[Ids]:
    """The texts of some shards, boundaries removed."""
    return [
        np.asarray(shard.ids[start + 1 : end - 1], np.int64)
        for shard in shards
        for start, end in zip(shard.starts.tolist(), shard.ends.tolist(), strict=True)
    ]


def ngram_losses(train: list[Ids], test: list[Ids], words: int) -> NDArray[np.float64]:
    """Negative log-probability of each text, averaged over the two directions."""
    forward = fit_tuned(train, vocabulary_size=words, bos=START, eos=END)
    losses = np.array([-one.sum() for one in forward.log_probabilities(test)])
    del forward
    backward = fit_tuned([one[::-1] for one in train], vocabulary_size=words, bos=END, eos=START)
    backwards = backward.log_probabilities([one[::-1] for one in test])
    return (losses + np.array([-one.sum() for one in backwards])) / 2


def overlap(train: list[Ids], test: list[Ids]) -> NDArray[np.float64]:
    """Of each test text, the share of eight-word phrases that the training text holds too."""
    phrases = [_phrases(one) for one in test]
    wanted = set().union(*phrases)
    known: set[bytes] = set()
    for one in train:
        known |= _phrases(one) & wanted
    return np.array([len(one & known) / max(1, len(one)) for one in phrases])


def _phrases(document: Ids) -> set[bytes]:
    return {
        document[start : start + PHRASE].tobytes() for start in range(len(document) - PHRASE + 1)
    }


if __name__ == "__main__":
    main()
