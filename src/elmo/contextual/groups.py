"""Which texts are read side by side: those of like length, or each slot's next one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from elmo.bilm.model import BiLM, BiLMState, LayerActivations
from elmo.contextual.reading import read_layers
from elmo.contextual.start_state import first_rows, repeated
from elmo.text.batches import Batch, WordTable, make_batch
from elmo.text.batching import Group, plan_shard, read_group
from elmo.text.batching_config import Batching
from elmo.text.in_memory import lay_end_to_end, text_numbers
from elmo.text.shards import Shard
from elmo.text.vocabulary import BEGIN, END

Words = Sequence[str]
CELLS_A_BATCH = 1 << 22
"""What a layer may hold of a batch; many words at a time take less time, each, than few."""
FEWEST_TOKENS, MOST_TOKENS = 8192, 32768


@dataclass(frozen=True)
class GroupLayers:
    """The layers of some of the texts."""

    texts: list[int]
    """The numbers of the texts, in the order of the rows."""
    activations: LayerActivations


@dataclass(frozen=True)
class _Numbered:
    """Texts as numbers of their words, end to end, ready to be read in windows."""

    shard: Shard
    table: WordTable

    @classmethod
    def of(cls, texts: Sequence[Words], model: BiLM) -> _Numbered:
        return cls(*lay_end_to_end(texts, model.vocabulary, spelled=model.config.spelled))

    def numbers(self, group: Group) -> list[int]:
        return text_numbers(self.shard, group).tolist()

    def windows(self, group: Group, window: int) -> Iterator[Batch]:
        return read_group(self.shard, group, self.table, window)


def usual_batch_tokens(model: BiLM) -> int:
    """How many words are read at a time where nobody says: the more, the smaller the model."""
    return min(max(CELLS_A_BATCH // model.config.hidden, FEWEST_TOKENS), MOST_TOKENS)


def read_alike(
    model: BiLM,
    texts: Sequence[Words],
    batch_tokens: int,
    start: BiLMState | None = None,
    wanted: Sequence[int] | None = None,
) -> Iterator[GroupLayers]:
    """Read texts of like length together, each from the same state (of one row; none: zeros).

    A text longer than a batch is read alone, in windows. Only the `wanted` layers are computed, by
    default all.
    """
    numbered = _Numbered.of(texts, model)
    for group in plan_shard(
        numbered.shard, Batching(window=batch_tokens, batch_tokens=batch_tokens)
    ):
        numbers = numbered.numbers(group)
        lengths = [len(texts[number]) for number in numbers]
        state = None if start is None else repeated(start, len(numbers))
        windows = numbered.windows(group, batch_tokens)
        read = read_layers(model, windows, lengths, batch_tokens, state, wanted=wanted)
        yield GroupLayers(numbers, read)


def read_in_order(
    model: BiLM,
    texts: Sequence[Words],
    batch_tokens: int,
    slots: int,
    state: BiLMState | None = None,
    wanted: Sequence[int] | None = None,
) -> Iterator[GroupLayers]:
    """Read texts in the order given, so many side by side, each slot's state carried on.

    Each direction reads through its last boundary: the states given are those behind it. All
    layers read on, and the `wanted` ones are given, by default all.
    """
    numbered = _Numbered.of(texts, model)
    window = max(2, batch_tokens // slots)
    for first in range(0, len(texts), slots):
        numbers = list(range(first, min(first + slots, len(texts))))
        if state is not None:
            state = first_rows(state, len(numbers))
        windows = numbered.windows(_group(numbered.shard, numbers), window)
        lengths = [len(texts[number]) for number in numbers]
        read = read_layers(model, windows, lengths, window, state)
        state = _behind_boundary(model, read.state, numbered.table, len(numbers))
        layers = read.layers if wanted is None else read.layers[list(wanted)]
        yield GroupLayers(numbers, LayerActivations(layers, read.lengths, state))


def _group(shard: Shard, numbers: Sequence[int]) -> Group:
    places: NDArray[np.int64] = np.array(numbers)
    return Group(0, shard.starts[places], shard.ends[places])


@torch.no_grad()
def _behind_boundary(model: BiLM, state: BiLMState, table: WordTable, rows: int) -> BiLMState:
    """Let each direction read the boundary that it has come to."""
    forward, backward = (np.array([end, end]) for end in (END, BEGIN))
    batch = make_batch([forward] * rows, [backward] * rows, table, starts=False)
    return BiLMState(*(read.states for read in model.read(batch.to(model.device), state)))
