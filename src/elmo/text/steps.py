"""A batch cut by its rows into parts that are read apart: by several processes, or in turn.

Row i belongs to part i modulo the number of parts, in every window of a group, so that the state
carried from window to window stays where it is. What a batch holds does not depend on how it is
cut: a run can go on with another number of processes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from elmo.text.batches import Batch, Rows, WordTable, make_batch
from elmo.text.batching import Group, Ids, plan, window_of
from elmo.text.batching_config import Batching
from elmo.text.shards import Shard, Shards
from elmo.text.vocabulary import BEGIN, END


@dataclass(frozen=True)
class Share:
    """Which parts of each batch are read here: all of it, unless the work is shared."""

    first: int = 0
    parts: int = 1
    """How many, one after the other."""
    of: int = 1
    """Into how many parts each batch is cut."""

    @classmethod
    def of_process(cls, rank: int, size: int, accumulate: int) -> Share:
        """The share of one of `size` processes, each reading its rows in so many parts."""
        return cls(rank * accumulate, accumulate, size * accumulate)

    def rows(self, total: int) -> list[Rows]:
        """The rows of each part that is read here; a part may have none."""
        return [Rows(self.first + number, self.of, total) for number in range(self.parts)]


@dataclass(frozen=True)
class Step:
    """One batch: those of its parts that are read here, and what all of them hold together."""

    parts: tuple[Batch | None, ...]
    """None where a part has nothing to read."""
    rows: int
    forward_targets: int
    backward_targets: int


def read_steps(
    shards: Shards,
    table: WordTable,
    batching: Batching,
    seed: tuple[int, ...] | None = None,
    skip: int = 0,
    share: Share | None = None,
) -> Iterator[Step]:
    """Read a share of all batches, from number `skip` on; without a share, all of each."""
    for group in plan(shards, batching, seed):
        windows = group.windows(batching.window)
        if skip < windows:
            divided = _DividedGroup(shards[group.shard], group, batching.window, share or Share())
            for number in range(skip, windows):
                yield divided.step(table, number)
        skip = max(0, skip - windows)


@dataclass(frozen=True)
class _DividedGroup:
    shard: Shard
    group: Group
    window: int
    share: Share

    def step(self, table: WordTable, number: int) -> Step:
        rows = len(self.group.starts)
        parts = tuple(self._part(one, table, number) for one in self.share.rows(rows))
        if self.share.parts == self.share.of:
            forward = sum(len(part.forward.targets) for part in parts if part is not None)
            backward = sum(len(part.backward.targets) for part in parts if part is not None)
        else:
            whole = window_of(self.shard, self.group, self.window, number)
            forward, backward = _asked(whole.forward, BEGIN), _asked(whole.backward, END)
        return Step(parts, rows, forward, backward)

    def _part(self, rows: Rows, table: WordTable, number: int) -> Batch | None:
        if not len(rows):
            return None
        pieces = window_of(self.shard, self.group.part(rows), self.window, number)
        if all(len(piece) < 2 for piece in pieces.forward):
            return None  # its spans have come to their ends, others' have not
        return make_batch(
            pieces.forward,
            pieces.backward,
            table,
            starts=number == 0,
            rows=rows if self.share.of > 1 else None,
        )


def _asked(pieces: Sequence[Ids], never: int) -> int:
    """How many words are to be predicted: all but the first ones and one kind of boundary."""
    return int((np.concatenate([piece[1:] for piece in pieces]) != never).sum())
