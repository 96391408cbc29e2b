"""Documents come back from disk as they went in, and damage is told."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmo.errors import UserError
from elmo.text.shards import Shards, ShardWriter

FULL = Path("/dev/full")
DOCUMENTS = st.lists(st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=12), max_size=12)


def write(folder: Path, documents: list[list[int]], tokens_per_shard: int) -> Shards:
    writer = ShardWriter(folder, tokens_per_shard)
    for document in documents:
        writer.add(document)
    writer.close()
    return Shards(folder)


def contents(shards: Shards) -> list[list[int]]:
    return [
        shard.ids[start:end].tolist()
        for shard in shards
        for start, end in zip(shard.starts, shard.ends, strict=True)
    ]


@given(DOCUMENTS, st.integers(1, 30))
def test_any_documents_come_back(documents: list[list[int]], tokens_per_shard: int) -> None:
    with TemporaryDirectory() as folder:
        shards = write(Path(folder), documents, tokens_per_shard)
        assert contents(shards) == documents
        assert shards.documents == len(documents)
        assert shards.positions == sum(map(len, documents))
        assert shards.targets == sum(len(document) - 1 for document in documents)
        for shard in shards:
            assert shard.lengths.tolist() == (shard.ends - shard.starts).tolist()
            assert len(shard.ids) <= tokens_per_shard or len(shard.ends) == 1


def test_shards_are_mapped_rather_than_read(tmp_path: Path) -> None:
    shards = write(tmp_path, [[1, 2, 3]] * 4, 6)
    assert len(shards) == 2
    assert isinstance(shards[0].ids, np.memmap)


def test_shards_keep_their_order_beyond_ten(tmp_path: Path) -> None:
    shards = write(tmp_path, [[number] for number in range(120)], 1)
    assert [shard.ids[0] for shard in shards] == list(range(120))


@given(DOCUMENTS.map(lambda found: [[n % 50 for n in one] for one in found]), st.randoms())
def test_renumbering(documents: list[list[int]], random: object) -> None:
    new_ids = list(range(100, 150))
    random.shuffle(new_ids)  # pyright: ignore
    with TemporaryDirectory() as folder:
        shards = write(Path(folder), documents, 10)
        shards.renumber(np.array(new_ids, np.uint32))
        assert contents(shards) == [[new_ids[n] for n in one] for one in documents]


def test_no_documents_give_no_shards(tmp_path: Path) -> None:
    assert len(write(tmp_path, [], 10)) == 0


@pytest.mark.parametrize("damage", ["cut", "empty", "missing", "other kind", "other length"])
def test_damage_is_told(tmp_path: Path, damage: str) -> None:
    shards = write(tmp_path / "train", [list(range(50))], 100)
    ids, ends = tmp_path / "train" / "00000.ids.npy", tmp_path / "train" / "00000.ends.npy"
    match damage:
        case "cut":
            ids.write_bytes(ids.read_bytes()[:-40])
        case "empty":
            ids.write_bytes(b"")
        case "missing":
            ends.unlink()
        case "other kind":
            np.save(ids, np.arange(50, dtype=np.float32))
        case _:
            np.save(ends, np.array([49], np.int64))
    with pytest.raises(UserError, match=f"delete {tmp_path}"):
        shards[0]


@pytest.mark.skipif(not FULL.exists(), reason="needs the device /dev/full")
@pytest.mark.parametrize("file", ["00000.ids.npy", "00000.ends.npy"])
@pytest.mark.parametrize("words", [3, 100_000])
def test_a_full_disk_is_noticed(tmp_path: Path, file: str, words: int) -> None:
    (tmp_path / file).symlink_to(FULL)
    with pytest.raises(OSError, match="No space left"):
        write(tmp_path, [list(range(words))], words)
