"""The words of each text apart: what is done to a word in one text is not done in the others."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import cast

import torch
from torch import Tensor

from elmo.text.batches import Batch, Words


@dataclass(frozen=True)
class ApartBatch:
    """A batch in which no two texts share a word of `Words`."""

    batch: Batch
    text: Tensor  # (words,), the text that each word is of


def words_apart(batch: Batch) -> ApartBatch:
    """The same batch; a word that several texts hold is there once for each of them."""
    shared = len(batch.words.ids)
    inputs = [reading.inputs for reading in batch.readings]
    columns = torch.arange(inputs[0].shape[1], device=inputs[0].device)
    numbered = [(one + shared * columns).flatten() for one in inputs]
    distinct, places = cast(
        "tuple[Tensor, Tensor]", torch.cat(numbered).unique(return_inverse=True)
    )
    forward, backward = (
        replace(reading, inputs=some.view(reading.inputs.shape))
        for reading, some in zip(
            batch.readings, torch.split(places, [len(one) for one in numbered]), strict=True
        )
    )
    words = _chosen(batch.words, distinct % shared)
    return ApartBatch(Batch(words, forward, backward, batch.starts), distinct // shared)


def _chosen(words: Words, places: Tensor) -> Words:
    spellings = None if words.spellings is None else words.spellings[places]
    return Words(words.ids[places], spellings)
