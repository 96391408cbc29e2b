"""Token ids on disk: written as they come, read through memory maps, never whole in memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import numpy as np
from numpy.typing import NDArray

from elmo.errors import UserError

TOKENS_PER_SHARD = 1 << 22
Ids = NDArray[np.uint32]


@dataclass(frozen=True)
class Shard:
    """Documents end to end, boundaries included, as two memory-mapped arrays."""

    ids: Ids
    ends: NDArray[np.int64]
    """Where each document ends in `ids`."""

    @property
    def starts(self) -> NDArray[np.int64]:
        """Where each document starts in `ids`."""
        return np.concatenate([np.zeros(1, np.int64), self.ends[:-1]])

    @property
    def lengths(self) -> NDArray[np.int64]:
        """How many ids each document has, its two boundaries included."""
        return np.diff(self.ends, prepend=0)


class ShardWriter:
    """Collects documents and writes a shard whenever enough tokens are there."""

    def __init__(self, folder: Path, tokens_per_shard: int = TOKENS_PER_SHARD) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._room = tokens_per_shard
        self._ids = np.empty(tokens_per_shard, np.uint32)
        self._used = 0
        self._ends: list[int] = []
        self._shards = 0

    def add(self, document: list[int]) -> None:
        """Append one document, boundaries included."""
        if self._used and self._used + len(document) > self._room:
            self.close()
        if len(document) > len(self._ids):
            self._ids = np.empty(len(document), np.uint32)
        self._ids[self._used : self._used + len(document)] = document
        self._used += len(document)
        self._ends.append(self._used)

    def close(self) -> None:
        """Write what is still in memory."""
        if not self._ends:
            return
        name = f"{self._shards:05d}"
        _save(self._folder / f"{name}.ids.npy", self._ids[: self._used])
        _save(self._folder / f"{name}.ends.npy", np.array(self._ends, np.int64))
        self._shards += 1
        self._used = 0
        self._ends = []


@dataclass(frozen=True)
class Shards:
    """The shards of a folder, in order."""

    folder: Path

    def __len__(self) -> int:
        return len(self._names())

    def __iter__(self) -> Iterator[Shard]:
        return (self[place] for place in range(len(self)))

    def __getitem__(self, place: int) -> Shard:
        name = self._names()[place]
        ids = _mapped(self.folder / f"{name}.ids.npy")
        ends = _mapped(self.folder / f"{name}.ends.npy")
        if ids.dtype != np.uint32 or ends.dtype != np.int64 or ends[-1] != len(ids):
            raise UserError(f"{self.folder / name}: damaged; delete {self.folder.parent} and rerun")
        return Shard(cast("Ids", ids), cast("NDArray[np.int64]", ends))

    @property
    def documents(self) -> int:
        """How many documents there are."""
        return sum(len(shard.ends) for shard in self)

    @property
    def positions(self) -> int:
        """How many ids there are, boundaries included."""
        return sum(len(shard.ids) for shard in self)

    @property
    def targets(self) -> int:
        """How many words one direction is asked to predict: each word and one boundary."""
        return self.positions - self.documents

    def renumber(self, new_ids: Ids) -> None:
        """Replace each id by `new_ids[id]`, shard by shard, in place."""
        for name in self._names():
            path = self.folder / f"{name}.ids.npy"
            _save(path, new_ids[np.load(path, allow_pickle=False)])

    def _names(self) -> list[str]:
        return sorted(path.name.split(".")[0] for path in self.folder.glob("*.ids.npy"))


def _save(path: Path, values: NDArray[np.generic]) -> None:
    """Write what np.save would, which can cut a file short on a full disk and not say so."""
    with path.open("wb") as stream:
        np.lib.format.write_array_header_1_0(
            stream, np.lib.format.header_data_from_array_1_0(values)
        )
        stream.write(values.data)


def _mapped(path: Path) -> NDArray[np.generic]:
    try:
        return np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise UserError(
            f"{path}: cannot be read ({error}); delete {path.parents[1]} and rerun"
        ) from None
