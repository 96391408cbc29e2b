"""Arrays and strings written to an .npz file end to end, so that none is ever whole in memory."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def add_pieces(
    archive: zipfile.ZipFile, name: str, shape: tuple[int, ...], kind: str, pieces: Iterable[Array]
) -> None:
    """Write pieces of an array as one."""
    # A fixed date, which is ZipInfo's own: the same vectors give the same file.
    entry = zipfile.ZipInfo(f"{name}.npy")
    header = {"descr": kind, "fortran_order": False, "shape": shape}
    with archive.open(entry, "w", force_zip64=True) as stream:
        np.lib.format.write_array_header_1_0(stream, header)
        for piece in pieces:
            stream.write(np.ascontiguousarray(piece, np.dtype(kind)).tobytes())


def add_numbers(archive: zipfile.ZipFile, name: str, values: NDArray[np.int64]) -> None:
    """Write whole numbers."""
    add_pieces(archive, name, values.shape, "<i8", [values])


def add_strings(archive: zipfile.ZipFile, name: str, strings: Callable[[], Iterable[str]]) -> None:
    """Write strings as UTF-8: string i is the bytes {name}_offsets[i] to {name}_offsets[i + 1]."""
    sizes = np.array([len(_utf8(one)) for one in strings()], np.int64)
    pieces = (np.frombuffer(_utf8(one), np.uint8) for one in strings())
    add_pieces(archive, f"{name}s", (int(sizes.sum()),), "|u1", pieces)
    add_numbers(archive, f"{name}_offsets", offsets(sizes))


def offsets(sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Where things of these sizes begin, laid end to end, and where the last one ends."""
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])


def _utf8(text: str) -> bytes:
    return text.encode("utf-8", errors="surrogatepass")
