"""The words a classifier has vectors of its own for: frequent ones, and those given with one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from elmo.errors import UserError
from elmo.static.vectors import StaticVectors
from elmo.text.vocabulary import SPECIAL_WORDS, UNKNOWN, Vocabulary, build_vocabulary

MOST_GIVEN = 400_000
"""Of a file of vectors so many are taken; the most frequent words come first in it."""


def own_vocabulary(texts: Iterable[Sequence[str]], min_count: int) -> Vocabulary:
    """The words that occur often enough, most frequent first, then by alphabet."""
    counts: Counter[str] = Counter()
    number = 0
    for words in texts:
        counts.update(words)
        number += 1
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return build_vocabulary(
        [word for word, _ in ranked],
        [count for _, count in ranked],
        boundaries=number,
        min_count=min_count,
        max_size=None,
    )


def own_numbers(own: Vocabulary, words: Sequence[str], lower_case: bool) -> NDArray[np.int32]:
    """The row of each word, if need be and wanted that of its lower-case form."""
    numbers = own.encode(words).astype(np.int32)
    if lower_case:
        for place in np.flatnonzero(numbers == UNKNOWN).tolist():
            numbers[place] = own.id(words[place].lower())
    return numbers


def with_given(own: Vocabulary, given: StaticVectors) -> Vocabulary:
    """Behind these words all others that vectors are given for: texts to come may hold them."""
    words = [word for word in given.words if word.split() == [word]]
    return own.grown(words, [0] * len(words))


def check_given(given: StaticVectors, size: int) -> None:
    """Refuse vectors that own ones of so many numbers cannot begin with."""
    if given.dim > size:
        raise UserError(
            f"word_vectors: they have {given.dim} numbers, but own_words is {size}; "
            f"use --own-words {given.dim} or more"
        )


@torch.no_grad()
def begin_as_given(table: Tensor, own: Vocabulary, given: StaticVectors) -> None:
    """Let words begin with the vectors that are given for them or for their lower-case forms.

    Shorter ones are the first numbers of a row. The others stay as they are drawn for words that
    the training texts hold often, which learn them; for words that they do not they are zero.
    """
    places = np.array([given.ids.get(word, given.ids.get(word.lower(), -1)) for word in own.words])
    places[: len(SPECIAL_WORDS)] = -1
    has_vector, is_learned = places >= 0, np.array(own.counts) > 0
    if not (has_vector & is_learned).any():
        raise UserError("word_vectors: none of the words of the texts has one")
    table[torch.from_numpy(has_vector & ~is_learned)] = 0
    begun = torch.from_numpy(given.vectors[places[has_vector]])
    table[torch.from_numpy(has_vector), : given.dim] = begun
