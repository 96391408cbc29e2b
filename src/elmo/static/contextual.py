"""Static vectors distilled from a biLM: the mean of a word's contextual vectors over a corpus.

Bommasani et al. (2020) found such means better than the static vectors of their time; in a study
they show what context itself adds. Free of torch until it is used, as `elmo.static.train` is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray

from elmo.config import Count, Range, check
from elmo.errors import UserError
from elmo.static.vectors import StaticVectors
from elmo.text.vocabulary import SPECIAL_WORDS, Vocabulary

if TYPE_CHECKING:
    from elmo.language_model import LanguageModel

CHUNK_WORDS = 1024
"""Longer texts are read in chunks of this many words, which bounds the memory."""
TOKENS_AT_ONCE = 1 << 17
"""Words sorted by length and read together."""
BATCH_TOKENS = 8192


@dataclass(frozen=True, kw_only=True)
class ContextualConfig:
    """The mean over a word's occurrences of what a biLM makes of it."""

    layer: Annotated[int, Range(0)] | Literal["average", "top"] = "average"
    """A layer number (0: the word alone), top, or the average of all layers."""
    min_count: Count = 3
    """Words seen less often get no vector; the biLM reads them all the same."""
    max_vocabulary: Annotated[int, Range(4)] | None = 100_000
    """At most this many words, the most frequent ones; memory grows with it, not with the text."""


def contextual_vectors(
    texts: Iterable[Sequence[str]],
    vocabulary: Vocabulary,
    loaded: LanguageModel,
    config: ContextualConfig | None = None,
    on_texts: Callable[[int], None] = lambda texts: None,
) -> StaticVectors:
    """One vector of 2 * width numbers for each word of the vocabulary that occurs in the texts.

    Args:
        texts: tokenized as the biLM's training text was; read once.
        vocabulary: the words that get a vector.
        on_texts: called with the number of texts that are done.
    """
    import torch

    from elmo.text.batching import group_by_length, pack_texts

    config = config or ContextualConfig()
    check(config)
    model = loaded.model
    top = model.config.layers
    if isinstance(config.layer, int) and config.layer > top:
        raise UserError(f"layer: expected one of layers 0 to {top}, got {config.layer}")
    layers = {"average": list(range(top + 1)), "top": [top]}.get(str(config.layer))
    layers = [int(config.layer)] if layers is None else layers

    def read() -> Iterator[tuple[list[list[str]], Any]]:
        for block, ended in _blocks(texts):
            lengths = np.array([1 + len(chunk) for chunk in block], np.int64)
            for group in group_by_length(lengths, BATCH_TOKENS):
                rows: list[int] = group.tolist()
                chunks = [list(block[row]) for row in rows]
                batch = pack_texts(chunks, model.vocabulary, spelled=model.spelled)
                outputs = model.layers(batch.to(model.device), upto=max(layers))
                yield chunks, outputs.words(layers).mean(0).cpu().numpy()
            on_texts(ended)

    with torch.no_grad():
        return mean_vectors(read(), vocabulary, 2 * model.config.width)


def mean_vectors(
    occurrences: Iterable[tuple[Sequence[Sequence[str]], NDArray[np.floating]]],
    vocabulary: Vocabulary,
    dim: int,
) -> StaticVectors:
    """The mean vector of each word of the vocabulary that occurs.

    Args:
        occurrences: some texts at a time, and the vectors of their words end to end, (words, dim).
    """
    special = len(SPECIAL_WORDS)
    sums, counts = np.zeros((len(vocabulary), dim), np.float32), np.zeros(len(vocabulary), np.int64)
    for texts, vectors in occurrences:
        ids = np.concatenate([vocabulary.encode(text) for text in texts])
        # Sorted and summed word by word: np.add.at is a loop over occurrences.
        order = np.argsort(ids, kind="stable")
        distinct, starts = np.unique(ids[order], return_index=True)
        sums[distinct] += np.add.reduceat(vectors[order], starts, dtype=np.float32)
        counts += np.bincount(ids, minlength=len(counts))
    seen = np.flatnonzero(counts[special:]) + special
    if not len(seen):
        raise UserError("no word of the vocabulary is in the texts; give more text")
    words: list[int] = seen.tolist()
    means = (sums[seen] / counts[seen, None]).astype(np.float32)
    return StaticVectors(tuple(vocabulary.words[idx] for idx in words), means)


def _blocks(texts: Iterable[Sequence[str]]) -> Iterator[tuple[list[Sequence[str]], int]]:
    """Chunks of texts that are read together, and how many texts there are up to their end."""
    block: list[Sequence[str]] = []
    tokens = number = 0
    for number, text in enumerate(texts, start=1):
        for start in range(0, len(text), CHUNK_WORDS):
            block.append(text[start : start + CHUNK_WORDS])
            tokens += 1 + len(block[-1])
            if tokens >= TOKENS_AT_ONCE:
                yield block, number
                block, tokens = [], 0
    yield block, number
