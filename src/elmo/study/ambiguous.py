"""Ambiguous words: one list of static neighbours against a list a context."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from elmo.contextual.embedder import Embedder
from elmo.contextual.nearest import cosines
from elmo.contextual.neighbours import NeighbourConfig, find_neighbours
from elmo.static.vectors import StaticVectors
from elmo.study.data import StudyData
from elmo.study.results import AmbiguousWord, ContextNeighbour, InContext, StaticNeighbour

SHOWN = 6
OCCURRENCES = 100
"""Of a word, so many are compared to find two that are far apart."""
LEAST_OCCURRENCES = 4
SEARCHED = 1_500
AROUND = 6
"""Words on either side that are shown of a neighbour's text."""


def ambiguous_word(
    word: str,
    data: StudyData,
    embedder: Embedder,
    static_row: str,
    static: StaticVectors,
    *,
    shows_texts: bool,
) -> AmbiguousWord | None:
    """A word in the two contexts that are farthest apart; none if the texts hardly hold it."""
    rows = [int(row) for row in data.test if word in data.words[int(row)]][:OCCURRENCES]
    if len(rows) < LEAST_OCCURRENCES or word not in static.ids:
        return None
    contexts = [
        _in_context(word, row, data, embedder, shows_texts)
        for row in _farthest(word, rows, data, embedder)
    ]
    neighbours = tuple(
        StaticNeighbour(word=one.word, similarity=one.similarity)
        for one in static.nearest(word, SHOWN)
    )
    return AmbiguousWord(
        word=word, static_row=static_row, static=neighbours, contexts=tuple(contexts)
    )


def _farthest(
    word: str, rows: Sequence[int], data: StudyData, embedder: Embedder
) -> tuple[int, int]:
    """The two texts in which the word's vectors differ most."""
    texts = [data.words[row] for row in rows]
    layers = embedder.encode(texts, output="tokens", layer="top")
    vectors = np.stack(
        [layer[words.index(word)] for layer, words in zip(layers, texts, strict=True)]
    )
    similarities = np.stack([cosines(vectors, one) for one in vectors])
    first, second = np.unravel_index(int(similarities.argmin()), similarities.shape)
    return rows[int(first)], rows[int(second)]


def _in_context(
    word: str, row: int, data: StudyData, embedder: Embedder, shows_texts: bool
) -> InContext:
    searched = np.sort(np.random.default_rng(0).permutation(data.train_count)[:SEARCHED])
    found = find_neighbours(
        embedder,
        data.words[row].index(word),
        data.words[row],
        [data.words[int(one)] for one in searched],
        NeighbourConfig(count=SHOWN, distinct="word", texts=SEARCHED),
    )
    neighbours = tuple(
        ContextNeighbour(
            word=one.word,
            similarity=one.similarity,
            text=_around(one.words, one.position) if shows_texts else None,
            row=int(searched[one.text_number]),
        )
        for one in found.neighbours
    )
    text = " ".join(data.words[row]) if shows_texts else None
    return InContext(text=text, row=row - data.train_count, neighbours=neighbours)


def _around(words: Sequence[str], position: int) -> str:
    first, last = max(0, position - AROUND), position + AROUND + 1
    before, behind = "… " if first else "", " …" if last < len(words) else ""
    return before + " ".join(words[first:last]) + behind
