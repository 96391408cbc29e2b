"""Tokenised texts in memory, read in the same groups and windows as a corpus on disk."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from elmo.text.batches import Batch, WordTable, number_words
from elmo.text.batching import Group, plan_shard, read_group
from elmo.text.batching_config import Batching
from elmo.text.shards import Shard
from elmo.text.vocabulary import Vocabulary

TOKENS_AT_ONCE = 1 << 18
"""Of a long row of texts, so many tokens are kept in memory."""


@dataclass(frozen=True)
class TextGroup:
    """Some of the texts, read side by side, a batch a window."""

    texts: NDArray[np.int64]
    """The numbers of the texts, in the order of the batches' columns."""
    batches: Iterator[Batch]


def group_texts(
    texts: Sequence[Sequence[str]], vocabulary: Vocabulary, batching: Batching, *, spelled: bool
) -> Iterator[TextGroup]:
    """Put texts of like length together; each is in exactly one group."""
    if not texts:
        return
    shard, table = lay_end_to_end(texts, vocabulary, spelled=spelled)
    for group in plan_shard(shard, batching):
        yield TextGroup(
            text_numbers(shard, group), read_group(shard, group, table, batching.window)
        )


def read_texts(
    texts: Iterable[Sequence[str]], vocabulary: Vocabulary, batching: Batching, *, spelled: bool
) -> Iterator[Batch]:
    """Read any number of texts once, only some of them in memory at a time."""
    for some in _portions(texts, TOKENS_AT_ONCE):
        shard, table = lay_end_to_end(some, vocabulary, spelled=spelled)
        for group in plan_shard(shard, batching):
            yield from read_group(shard, group, table, batching.window)


def lay_end_to_end(
    texts: Sequence[Sequence[str]], vocabulary: Vocabulary, *, spelled: bool
) -> tuple[Shard, WordTable]:
    """Texts in memory as a shard, and the table of their words."""
    rows, table = number_words(texts, vocabulary, spelled=spelled)
    ends = np.cumsum([len(row) for row in rows], dtype=np.int64)
    return Shard(np.concatenate(rows).astype(np.uint32), ends), table


def text_numbers(shard: Shard, group: Group) -> NDArray[np.int64]:
    """Which texts of a shard a group reads."""
    return np.searchsorted(shard.starts, group.starts)


def _portions(texts: Iterable[Sequence[str]], tokens: int) -> Iterator[list[Sequence[str]]]:
    portion: list[Sequence[str]] = []
    held = 0
    for text in texts:
        portion.append(text)
        held += len(text)
        if held >= tokens:
            yield portion
            portion, held = [], 0
    if portion:
        yield portion
