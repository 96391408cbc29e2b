"""Over an epoch each word is predicted exactly once a direction, however the text is cut.

The texts are made of words that occur nowhere else, so that one can tell from two ids alone whether
a word really follows the other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from elmo.text.batches import Batch, Reading, WordTable
from elmo.text.batching import count_batches, read
from elmo.text.batching_config import Batching
from elmo.text.shards import Shards, ShardWriter
from elmo.text.vocabulary import BEGIN, END


@dataclass(frozen=True)
class Text:
    documents: list[list[int]]
    shards: Shards
    table: WordTable

    @property
    def words(self) -> list[int]:
        return [word for document in self.documents for word in document[1:-1]]

    def pairs(self, *, backward: bool) -> set[tuple[int, int]]:
        """All pairs of a word and the one a direction meets next."""
        running = [document[::-1] if backward else document for document in self.documents]
        return {pair for document in running for pair in pairwise(document)}


@contextmanager
def unique_text(lengths: list[int], tokens_per_shard: int = 10**6) -> Iterator[Text]:
    """Documents of so many words, each word a new one."""
    first = np.cumsum([3, *lengths])
    documents = [
        [BEGIN, *range(start, start + length), END]
        for start, length in zip(first.tolist(), lengths, strict=False)
    ]
    total = int(first[-1])
    table = WordTable([str(number) for number in range(total)], np.arange(total), spelled=False)
    with TemporaryDirectory() as folder:
        writer = ShardWriter(Path(folder), tokens_per_shard)
        for document in documents:
            writer.add(document)
        writer.close()
        yield Text(documents, Shards(Path(folder)), table)


@st.composite
def batchings(draw: st.DrawFn) -> Batching:
    window = draw(st.integers(2, 20))
    return Batching(
        batching=draw(st.sampled_from(["documents", "stream"])),
        window=window,
        batch_tokens=draw(st.integers(window, 5 * window)),
    )


LENGTHS = st.lists(st.integers(1, 45), min_size=1, max_size=15)
SHARD_SIZES = st.integers(5, 200)
SEEDS = st.none() | st.tuples(st.integers(0, 9))


def inputs_of(batch: Batch, reading: Reading) -> list[list[int]]:
    return [
        batch.words.ids[reading.inputs[:length, column]].tolist()
        for column, length in enumerate(reading.lengths.tolist())
    ]


def questions(batch: Batch, reading: Reading) -> list[tuple[int, int]]:
    """Each word at which something is asked, with the answer."""
    inputs = batch.words.ids[reading.inputs].flatten()[reading.asked]
    return list(zip(inputs.tolist(), reading.targets.tolist(), strict=True))


def tensors(batch: Batch) -> list[torch.Tensor]:
    readings = [[r.inputs, r.lengths, r.asked, r.targets] for r in batch.readings]
    return [batch.words.ids, torch.tensor(batch.starts), *readings[0], *readings[1]]


def same(first: list[Batch], second: list[Batch]) -> bool:
    return len(first) == len(second) and all(
        torch.equal(one, other)
        for left, right in zip(first, second, strict=True)
        for one, other in zip(tensors(left), tensors(right), strict=True)
    )


@given(LENGTHS, SHARD_SIZES, batchings(), SEEDS)
def test_each_word_is_predicted_once_from_its_neighbour(
    lengths: list[int], shard_size: int, batching: Batching, seed: tuple[int] | None
) -> None:
    with unique_text(lengths, shard_size) as text:
        batches = list(read(text.shards, text.table, batching, seed))
        ahead = [pair for batch in batches for pair in questions(batch, batch.forward)]
        behind = [pair for batch in batches for pair in questions(batch, batch.backward)]
        once = Counter(text.words)
        assert Counter(target for _, target in ahead) == once + Counter({END: len(lengths)})
        assert Counter(target for _, target in behind) == once + Counter({BEGIN: len(lengths)})
        assert set(ahead) == text.pairs(backward=False)
        assert set(behind) == text.pairs(backward=True)
        assert len(ahead) == len(behind) == text.shards.targets


@given(LENGTHS, SHARD_SIZES, batchings(), SEEDS)
def test_the_budget_and_the_window_are_kept(
    lengths: list[int], shard_size: int, batching: Batching, seed: tuple[int] | None
) -> None:
    with unique_text(lengths, shard_size) as text:
        batches = list(read(text.shards, text.table, batching, seed))
        assert len(batches) == count_batches(text.shards, batching, seed)
        for batch in batches:
            for reading in batch.readings:
                assert reading.inputs.numel() <= batching.batch_tokens
                assert len(reading.inputs) <= batching.window


@given(LENGTHS, SHARD_SIZES, batchings(), SEEDS)
def test_each_window_goes_on_where_the_one_before_ended(
    lengths: list[int], shard_size: int, batching: Batching, seed: tuple[int] | None
) -> None:
    with unique_text(lengths, shard_size) as text:
        following = dict(text.pairs(backward=False)) | {END: BEGIN}
        preceding = dict(text.pairs(backward=True)) | {BEGIN: END}
        firsts = {document[1] for document in text.documents}
        lasts = {document[-2] for document in text.documents}
        before: Batch | None = None
        for batch in read(text.shards, text.table, batching, seed):
            assert batch.starts or before is not None
            if not batch.starts and before is not None:
                _goes_on(before, before.forward, batch, batch.forward, following, firsts)
                _goes_on(before, before.backward, batch, batch.backward, preceding, lasts)
            before = batch


def _goes_on(
    before: Batch,
    was: Reading,
    after: Batch,
    now: Reading,
    next_of: dict[int, int],
    any_of: set[int],
) -> None:
    for old, new in zip(inputs_of(before, was), inputs_of(after, now), strict=True):
        if not new:
            continue
        # Behind a boundary several words may follow: any that opens (or closes) a document.
        expected = any_of if old[-1] in (BEGIN, END) and new[0] > END else {next_of[old[-1]]}
        assert new[0] in expected


@given(LENGTHS, SHARD_SIZES, batchings(), SEEDS, st.integers(0, 12))
def test_skipping_is_dropping_batches(
    lengths: list[int], shard_size: int, batching: Batching, seed: tuple[int] | None, skip: int
) -> None:
    with unique_text(lengths, shard_size) as text:
        everything = list(read(text.shards, text.table, batching, seed))
        rest = list(read(text.shards, text.table, batching, seed, skip))
        assert same(rest, everything[skip:])


@pytest.mark.parametrize("kind", ["documents", "stream"])
def test_the_seed_decides_the_order(kind: str) -> None:
    batching = Batching(batching=kind, window=8, batch_tokens=16)  # pyright: ignore
    with unique_text(list(range(1, 31)), tokens_per_shard=60) as text:
        first, again, other = (
            list(read(text.shards, text.table, batching, seed)) for seed in [(1, 0), (1, 0), (1, 1)]
        )
        assert same(first, again)
        assert not same(first, other)


@pytest.mark.parametrize(
    ("budget", "expected"), [(30, [3, 3, 3, 1]), (29, [2] * 5), (10, [1] * 10)]
)
def test_a_batch_holds_as_many_documents_as_the_budget_allows(
    budget: int, expected: list[int]
) -> None:
    batching = Batching(window=10, batch_tokens=budget)
    with unique_text([9] * 10) as text:
        batches = list(read(text.shards, text.table, batching))
        assert [batch.forward.inputs.shape for batch in batches] == [(10, n) for n in expected]


def test_documents_of_like_length_are_read_together() -> None:
    batching = Batching(window=100, batch_tokens=200)
    lengths = [40, 3, 41, 4, 39, 3] * 5
    with unique_text(lengths) as text:
        batches = list(read(text.shards, text.table, batching, seed=(0,)))
        read_steps = sum(batch.forward.inputs.numel() for batch in batches)
        assert read_steps < 1.1 * text.shards.targets


def test_other_documents_meet_in_another_epoch() -> None:
    batching = Batching(window=10, batch_tokens=20)
    with unique_text([5] * 30) as text:
        groups = [
            {frozenset(batch.forward.targets.tolist()) for batch in read(*given, seed)}
            for given in [(text.shards, text.table, batching)]
            for seed in [(0,), (1,)]
        ]
        assert groups[0] != groups[1]


@pytest.mark.parametrize("kind", ["documents", "stream"])
def test_a_long_document_is_read_whole_with_its_state_carried(kind: str) -> None:
    batching = Batching(batching=kind, window=64, batch_tokens=64)  # pyright: ignore
    with unique_text([5000]) as text:
        batches = list(read(text.shards, text.table, batching))
        assert [batch.starts for batch in batches] == [True] + [False] * 78
        whole = text.documents[0]
        ahead = [word for batch in batches for word in inputs_of(batch, batch.forward)[0]]
        behind = [word for batch in batches for word in inputs_of(batch, batch.backward)[0]]
        assert ahead == whole[:-1]
        assert behind == whole[:0:-1]


def test_a_stream_is_cut_into_lanes_that_leave_nothing_out() -> None:
    batching = Batching(batching="stream", window=10, batch_tokens=40)
    with unique_text([7] * 20) as text:
        batches = list(read(text.shards, text.table, batching))
        assert {batch.forward.inputs.shape[1] for batch in batches} == {4}
        lanes = [
            [word for batch in batches for word in inputs_of(batch, batch.forward)[lane]]
            for lane in range(4)
        ]
        running = [word for document in text.documents for word in document]
        assert [word for lane in lanes for word in lane] == running[:-1]
        assert max(map(len, lanes)) - min(map(len, lanes)) <= 1


def test_contradictory_settings_are_named() -> None:
    assert list(Batching().problems()) == []
    found = list(Batching(window=1, batch_tokens=0).problems())
    assert [problem.split()[0] for problem in found] == ["window:", "batch_tokens"]
