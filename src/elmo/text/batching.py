"""Two ways to go through a corpus: documents of like length together, or one running stream.

Both are the same machinery. A group is a set of spans read side by side, a window at a time; the
forward direction takes its windows from the left, the backward one from the right, and each goes
on from the state in which it left the window before. A short document is a span of one window, a
50,000-word one a span of many, and a stream a span that does not end with the document.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from elmo.text.batches import Batch, Rows, WordTable, make_batch
from elmo.text.batching_config import Batching
from elmo.text.shards import Shard, Shards

Ids = NDArray[np.int64]


@dataclass(frozen=True)
class Group:
    """Spans of one shard that are read side by side."""

    shard: int
    starts: Ids
    ends: Ids

    def windows(self, window: int) -> int:
        """How many steps it takes to read the longest span."""
        longest = int((self.ends - self.starts).max()) - 1
        return max(1, -(-longest // window))

    def part(self, rows: Rows) -> Group:
        """Some of the spans."""
        return Group(self.shard, self.starts[rows.places], self.ends[rows.places])


@dataclass(frozen=True)
class Window:
    """What each direction reads of each span in one step and, last, what it must still predict."""

    forward: list[Ids]
    backward: list[Ids]


def plan(shards: Shards, batching: Batching, seed: tuple[int, ...] | None) -> Iterator[Group]:
    """Divide shards into groups, each text in exactly one; shuffled unless there is no seed."""
    random = None if seed is None else np.random.default_rng(seed)
    order = np.arange(len(shards)) if random is None else random.permutation(len(shards))
    for place in order.tolist():
        yield from plan_shard(shards[place], batching, random, place)


def plan_shard(
    shard: Shard,
    batching: Batching,
    random: np.random.Generator | None = None,
    place: int = 0,
) -> list[Group]:
    """Divide one shard into groups; `place` is its place among others."""
    if batching.batching == "stream":
        return [_lanes(place, shard, batching)]
    return _buckets(place, shard, batching, random)


def count_batches(shards: Shards, batching: Batching, seed: tuple[int, ...] | None) -> int:
    """How many batches `read` will give."""
    return sum(group.windows(batching.window) for group in plan(shards, batching, seed))


def read(
    shards: Shards,
    table: WordTable,
    batching: Batching,
    seed: tuple[int, ...] | None = None,
    skip: int = 0,
) -> Iterator[Batch]:
    """Read all texts once, from batch number `skip` on."""
    for group in plan(shards, batching, seed):
        windows = group.windows(batching.window)
        if skip >= windows:
            skip -= windows
            continue
        yield from read_group(shards[group.shard], group, table, batching.window, skip)
        skip = 0


def read_group(
    shard: Shard, group: Group, table: WordTable, window: int, skip: int = 0
) -> Iterator[Batch]:
    """Read the spans of a group side by side, from window number `skip` on."""
    for step in range(skip, group.windows(window)):
        pieces = window_of(shard, group, window, step)
        yield make_batch(pieces.forward, pieces.backward, table, starts=step == 0)


def _buckets(
    place: int, shard: Shard, batching: Batching, random: np.random.Generator | None
) -> list[Group]:
    """Documents of like length together, as many as the token budget allows."""
    starts, ends, lengths = shard.starts, np.asarray(shard.ends), shard.lengths
    order = np.arange(len(ends)) if random is None else random.permutation(len(ends))
    order = order[np.argsort(lengths[order], kind="stable")]
    cuts = _cuts(np.minimum(lengths[order] - 1, batching.window), batching.batch_tokens)
    groups = [Group(place, starts[part], ends[part]) for part in np.split(order, cuts)]
    if random is None:
        return groups
    return [groups[number] for number in random.permutation(len(groups))]


def _cuts(steps: Ids, budget: int) -> list[int]:
    """Where to cut ascending lengths so that (longest x number) stays within the budget."""
    cuts: list[int] = []
    first = 0
    for place, longest in enumerate(steps.tolist()):
        if place > first and longest * (place - first + 1) > budget:
            cuts.append(place)
            first = place
    return cuts


def _lanes(place: int, shard: Shard, batching: Batching) -> Group:
    """A shard cut into lanes of equal length. A lane's last word is the next one's first."""
    lanes = max(1, min(batching.batch_tokens // batching.window, len(shard.ids) // 2))
    edges = np.linspace(0, len(shard.ids) - 1, lanes + 1).round().astype(np.int64)
    return Group(place, edges[:-1], edges[1:] + 1)


def window_of(shard: Shard, group: Group, window: int, step: int) -> Window:
    """Window number `step`, forwards from the starts of the spans, backwards from their ends."""
    spans = list(zip(group.starts.tolist(), group.ends.tolist(), strict=True))
    forward = [
        _piece(shard, start + step * window, min(end, start + (step + 1) * window + 1), end - 1)
        for start, end in spans
    ]
    backward = [
        _piece(shard, max(start, end - (step + 1) * window - 1), end - step * window, start)[::-1]
        for start, end in spans
    ]
    return Window(forward, backward)


def _piece(shard: Shard, first: int, last: int, rest: int) -> Ids:
    """The ids from `first` to `last`; of a span read to its end one word, with nothing to read."""
    piece = shard.ids[first:last] if last - first > 1 else shard.ids[rest : rest + 1]
    return np.asarray(piece, np.int64)
