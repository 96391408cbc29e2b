"""Batches cut into parts: nothing is lost, nothing is read twice, rows stay where they are."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from elmo.text.batches import Batch, WordTable
from elmo.text.batching import read
from elmo.text.batching_config import Batching
from elmo.text.shards import Shards, ShardWriter
from elmo.text.steps import Share, read_steps
from elmo.text.vocabulary import BEGIN, END, SPECIAL_WORDS, Vocabulary

WORDS = (*SPECIAL_WORDS, *(f"w{number}" for number in range(20)))
VOCABULARY = Vocabulary(WORDS, (1,) * len(WORDS))
TABLE = WordTable.of(WORDS, VOCABULARY, spelled=False)


def shards_of(folder: Path, lengths: list[int]) -> Shards:
    """Documents of so many words, in shards of about 60 ids."""
    random = np.random.default_rng(1)
    writer = ShardWriter(folder, tokens_per_shard=60)
    for length in lengths:
        writer.add([BEGIN, *random.integers(3, len(WORDS), length).tolist(), END])
    writer.close()
    return Shards(folder)


def predictions(batch: Batch) -> list[dict[int, list[int]]]:
    """Of each direction, the words that each row of a batch is asked for."""
    found: list[dict[int, list[int]]] = []
    for reading in batch.readings:
        columns = reading.inputs.shape[1]
        rows: dict[int, list[int]] = {}
        for place, target in zip(reading.asked.tolist(), reading.targets.tolist(), strict=True):
            rows.setdefault(place % columns, []).append(target)
        found.append(rows)
    return found


documents = st.lists(st.integers(1, 40), min_size=1, max_size=12)
kinds = st.sampled_from(["documents", "stream"])


@given(lengths=documents, kind=kinds, size=st.integers(1, 4), accumulate=st.integers(1, 3))
def test_the_parts_hold_the_batch(tmp_path_factory, lengths, kind, size, accumulate):
    shards = shards_of(tmp_path_factory.mktemp("shards"), lengths)
    batching = Batching(batching=kind, batch_tokens=24, window=6)
    shares = [Share.of_process(rank, size, accumulate) for rank in range(size)]
    divided = [list(read_steps(shards, TABLE, batching, (3,), share=one)) for one in shares]
    whole = list(read(shards, TABLE, batching, (3,)))
    assert {len(steps) for steps in divided} == {len(whole)}
    for batch, *steps in zip(whole, *divided, strict=True):
        expected = predictions(batch)
        found: list[dict[int, list[int]]] = [{}, {}]
        for step in steps:
            assert step.rows == batch.forward.inputs.shape[1]
            assert step.forward_targets == len(batch.forward.targets)
            assert step.backward_targets == len(batch.backward.targets)
            for part in filter(None, step.parts):
                assert part.starts == batch.starts
                for direction, rows in enumerate(predictions(part)):
                    for row, words in rows.items():
                        places = part.forward.rows
                        original = row if places is None else range(step.rows)[places.places][row]
                        assert original not in found[direction], "a row is read twice"
                        found[direction][original] = words
        assert found == expected


@given(lengths=documents, kind=kinds, skip=st.integers(0, 12))
def test_reading_can_start_anywhere(tmp_path_factory, lengths, kind, skip):
    shards = shards_of(tmp_path_factory.mktemp("shards"), lengths)
    batching = Batching(batching=kind, batch_tokens=24, window=6)
    share = Share.of_process(1, 2, 1)
    whole = list(read_steps(shards, TABLE, batching, (3,), share=share))
    rest = list(read_steps(shards, TABLE, batching, (3,), skip, share))
    assert len(rest) == max(0, len(whole) - skip)
    for one, other in zip(whole[skip:], rest, strict=True):
        assert (one.rows, one.forward_targets) == (other.rows, other.forward_targets)
        for mine, theirs in zip(one.parts, other.parts, strict=True):
            assert (mine is None) == (theirs is None)
            if mine is not None and theirs is not None:
                assert torch.equal(mine.forward.targets, theirs.forward.targets)


def test_an_undivided_batch_is_the_batch(tmp_path):
    shards = shards_of(tmp_path, [3, 9, 9, 20])
    batching = Batching(batch_tokens=24, window=6)
    for step, batch in zip(
        read_steps(shards, TABLE, batching, (0,)), read(shards, TABLE, batching, (0,)), strict=True
    ):
        (part,) = step.parts
        assert part.forward.rows is None
        for mine, theirs in zip(part.readings, batch.readings, strict=True):
            assert torch.equal(mine.inputs, theirs.inputs)
            assert torch.equal(mine.asked, theirs.asked)


@pytest.mark.parametrize(("size", "accumulate"), [(1, 1), (3, 1), (2, 4)])
def test_every_part_belongs_to_one_process(size, accumulate):
    shares = [Share.of_process(rank, size, accumulate) for rank in range(size)]
    rows = [row for one in shares for part in one.rows(11) for row in range(11)[part.places]]
    assert sorted(rows) == list(range(11))
    assert len([part for one in shares for part in one.rows(11)]) == size * accumulate
