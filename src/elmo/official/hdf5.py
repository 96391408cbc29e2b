"""HDF5 files from anywhere: plain numbers only, and no memory for what a file merely claims."""

from __future__ import annotations

import math
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elmo.errors import UserError
from elmo.runtime import require_extra

MOST_OBJECTS = 20_000
DEEPEST = 16
SMALL = 64 << 20
LARGEST_EXPANSION = 20  # how many times its size a compressed file may hold; weights hardly shrink
_KNOWN_FILTERS = {1: "gzip", 2: "shuffle", 3: "fletcher32", 32000: "lzf"}
_DAMAGE = (OSError, RuntimeError, LookupError, ValueError, TypeError, OverflowError, MemoryError)

Datasets = Mapping[str, Any]  # the datasets of an open file by their full names


@contextmanager
def opened(path: Path) -> Generator[Datasets]:
    """Open a file and give its datasets, or say what is wrong with it."""
    h5py: Any = require_extra("h5py", "official")
    if not path.is_file():
        raise UserError(f"{path}: no such file")
    if not h5py.is_hdf5(path):
        with path.open("rb") as stream:
            start = stream.read(24)
        raise UserError(
            f"{path}: not an HDF5 file; it starts with {start!r}, so it may be a web page, a "
            "pointer of Git LFS or a file that was never downloaded whole; get it again"
        )
    try:
        with h5py.File(path, "r") as file:
            yield _collect(h5py, file, path)
    except UserError:
        raise
    except _DAMAGE as error:
        raise UserError(
            f"{path}: damaged, likely cut short while it was copied or downloaded; get it again "
            f"({error})"
        ) from None


def shape_and_type(dataset: Any) -> tuple[tuple[int, ...] | None, str]:
    """Shape (None if it has none) and dtype of a dataset; either byte order is float32."""
    dtype = dataset.dtype
    is_float32 = dtype.kind == "f" and dtype.itemsize == 4
    shape = None if dataset.shape is None else tuple(dataset.shape)
    return shape, "float32" if is_float32 else str(dtype)


def require_readable(path: Path, datasets: Datasets) -> None:
    """Refuse numbers that are not in this very file, or more than it can hold."""
    for name, dataset in datasets.items():
        problem = _storage_problem(dataset)
        if problem:
            raise UserError(f"{path}: dataset {name} {problem}")
    size = path.stat().st_size
    total = sum(4 * math.prod(dataset.shape) for dataset in datasets.values())
    if total > max(SMALL, LARGEST_EXPANSION * size):
        raise UserError(
            f"{path}: claims {total:,} bytes of numbers, which a file of {size:,} bytes cannot hold"
        )


def read_numbers(dataset: Any) -> NDArray[np.float32]:
    numbers = np.empty(dataset.shape, np.float32)
    if numbers.size:
        dataset.read_direct(numbers)
        if not np.isfinite([numbers.min(), numbers.max()]).all():
            raise UserError(
                f"{dataset.file.filename}: {dataset.name} holds numbers that are not finite"
            )
    return numbers


def _collect(h5py: Any, file: Any, path: Path) -> dict[str, Any]:
    datasets: dict[str, Any] = {}
    waiting: list[tuple[tuple[str, ...], Any]] = [((), file)]
    objects = 0
    while waiting:
        parents, group = waiting.pop()
        objects += len(group)
        if objects > MOST_OBJECTS or len(parents) > DEEPEST:
            raise UserError(f"{path}: more groups and datasets than any model has")
        for name in group:
            full = (*parents, str(name))
            if not isinstance(group.get(name, getlink=True), h5py.HardLink):
                raise UserError(
                    f"{path}: {'/'.join(full)} is a link, which may lead out of the file; a model "
                    "holds its own numbers"
                )
            member = group[name]
            if isinstance(member, h5py.Dataset):
                datasets["/".join(full)] = member
            elif isinstance(member, h5py.Group):
                waiting.append((full, member))
            else:
                raise UserError(f"{path}: {'/'.join(full)} is neither a group nor a dataset")
    return datasets


def _storage_problem(dataset: Any) -> str | None:
    h5d: Any = require_extra("h5py.h5d", "official")
    creation = dataset.id.get_create_plist()
    if creation.get_external_count():
        return "keeps its numbers in another file; a model holds its own"
    if creation.get_layout() not in (h5d.CONTIGUOUS, h5d.CHUNKED):
        return "is neither contiguous nor chunked"
    filters = [creation.get_filter(idx)[0] for idx in range(creation.get_nfilters())]
    if not set(filters) <= _KNOWN_FILTERS.keys():
        return f"is compressed in a way that is not {', '.join(_KNOWN_FILTERS.values())}"
    numbers = math.prod(dataset.shape)
    if dataset.chunks is not None and math.prod(dataset.chunks) > max(numbers, SMALL // 4):
        return f"is stored in chunks of {dataset.chunks}, larger than the whole of it"
    least = 4 * numbers if not filters else min(1, numbers)
    if dataset.id.get_storage_size() < least:
        return "was never written: its numbers are not in the file"
    return None
