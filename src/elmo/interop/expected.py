"""Activations that somebody stored, in .hdf5 or .npz, one array a text under the text's number."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from elmo.errors import UserError
from elmo.interop.hdf5 import opened, read_numbers, require_readable, shape_and_type

Array = NDArray[np.float32]
NOT_ACTIVATIONS = ("sentence_to_index",)
"""What AllenNLP writes beside them."""


@dataclass(frozen=True)
class StoredArray:
    """An array whose shape is known before its numbers are read."""

    shape: tuple[int, ...] | None
    kind: str
    read: Callable[[], Array]


Stored = Mapping[str, StoredArray]


@contextmanager
def stored_arrays(path: Path) -> Generator[Stored]:
    """The arrays of a file, by name."""
    if path.suffix == ".npz":
        with _opened_npz(path) as arrays:
            yield arrays
        return
    with opened(path) as datasets:
        yield {
            name: StoredArray(*shape_and_type(dataset), _reader(path, name, dataset))
            for name, dataset in datasets.items()
            if name not in NOT_ACTIVATIONS
        }


def require_numbers(path: Path, stored: Stored, texts: int) -> None:
    """Make sure that there is one array for each text, named by its number from 0."""
    wanted = {str(number) for number in range(texts)}
    if stored.keys() != wanted:  # pyright: ignore[reportUnnecessaryComparison]
        odd = sorted(stored.keys() ^ wanted)[:5]
        raise UserError(
            f"{path}: expected one array for each of {texts:,} texts, named 0 to {texts - 1}; "
            f"missing or left over: {', '.join(odd)}"
        )


def read_expected(path: Path, name: str, array: StoredArray, *shapes: tuple[int, ...]) -> Array:
    """The numbers of an array that has one of these shapes."""
    if array.shape not in shapes or array.kind not in ("float32", "float64"):
        wanted = " or ".join(map(str, shapes))
        raise UserError(
            f"{path}: {name!r} is {array.shape} of {array.kind}, expected {wanted} of float32; "
            "are these the sentences and the model it was made with?"
        )
    return array.read()


def _reader(path: Path, name: str, dataset: Any) -> Callable[[], Array]:
    def read() -> Array:
        require_readable(path, {name: dataset})
        return read_numbers(dataset)

    return read


@contextmanager
def _opened_npz(path: Path) -> Generator[Stored]:
    try:
        with zipfile.ZipFile(path) as archive:
            yield {name.removesuffix(".npy"): _member(archive, name) for name in archive.namelist()}
    except UserError:
        raise
    except FileNotFoundError:
        raise UserError(f"{path}: no such file") from None
    except (OSError, ValueError, zipfile.BadZipFile, EOFError, NotImplementedError) as error:
        raise UserError(f"{path}: damaged or not an .npz file ({error})") from None


def _member(archive: zipfile.ZipFile, name: str) -> StoredArray:
    """Read the header alone: the numbers only where the shape is the one that was expected."""
    with archive.open(name) as stream:
        version = npy.read_magic(stream)
        header = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
        shape, _, kind = header(stream)

    def read() -> Array:
        with archive.open(name) as stream:
            return np.asarray(npy.read_array(stream, allow_pickle=False), np.float32)

    return StoredArray(tuple(shape), str(kind), read)
