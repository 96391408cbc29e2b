"""Arrays and strings written to an .npz file end to end, so that none is ever whole in memory."""

from __future__ import annotations

import zipfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


@dataclass(frozen=True)
class Strings:
    """Strings end to end, as UTF-8, in pieces that need not be in memory together."""

    sizes: NDArray[np.int64]
    """Bytes a string."""
    pieces: Iterable[NDArray[np.uint8]]

    @classmethod
    def of(cls, strings: Sequence[str]) -> Strings:
        """All of them in one piece."""
        encoded = [one.encode("utf-8", errors="surrogatepass") for one in strings]
        whole = np.frombuffer(b"".join(encoded), np.uint8)
        return cls(np.array([len(one) for one in encoded], np.int64), [whole])

    def decoded(self) -> list[str]:
        """The strings themselves."""
        whole = b"".join(piece.tobytes() for piece in self.pieces)
        cuts = pairwise(offsets(self.sizes).tolist())
        return [whole[start:end].decode("utf-8", errors="surrogatepass") for start, end in cuts]


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


def add_strings(archive: zipfile.ZipFile, name: str, strings: Strings) -> None:
    """Write strings: string i is the bytes {name}_offsets[i] to {name}_offsets[i + 1]."""
    add_pieces(archive, f"{name}s", (int(strings.sizes.sum()),), "|u1", strings.pieces)
    add_numbers(archive, f"{name}_offsets", offsets(strings.sizes))


def offsets(sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Where things of these sizes begin, laid end to end, and where the last one ends."""
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
