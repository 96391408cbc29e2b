"""Token vectors become a file, a portion in memory at a time: .npz, .parquet, .h5 or .hdf5.

npz       vectors: a row a word; words: UTF-8, word i is the bytes word_offsets[i] to
          word_offsets[i + 1]
parquet   word, vector: a row a word
h5, hdf5  "embedding": a row a word, as the original programs store and read them; the words go to
          a file beside of the same name that ends in .txt, a word a line
"""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from elmo.contextual.encoder import Vectors
from elmo.contextual.npz import Strings, add_pieces, add_strings
from elmo.contextual.vector_files import check_vector_file
from elmo.errors import UserError, require_extra
from elmo.files import write_text, written_whole
from elmo.interop.stored_tokens import DATASET


@dataclass(frozen=True)
class WordVectors:
    """Words, and portions of their vectors in the same order."""

    words: tuple[str, ...]
    dim: int
    portions: Iterable[Vectors]


def check_word_file(path: Path) -> None:
    """Make sure, before the work begins, that files of this name can be written."""
    check_vector_file(path)
    beside = _beside(path)
    if beside is not None and beside.exists():
        raise UserError(
            f"{beside}, where the words would go, is there already; delete it, or choose another "
            "name"
        )


def write_word_file(path: Path, vectors: WordVectors) -> None:
    """Write a file that is whole or not there."""
    with written_whole(path) as partial:
        _WRITERS[path.suffix](partial, vectors)
        beside = _beside(path)
        if beside is not None:
            write_text(beside, "".join(f"{word}\n" for word in vectors.words))


def _beside(path: Path) -> Path | None:
    """Where the words go if the file itself has no place for them."""
    return path.with_suffix(".txt") if _WRITERS[path.suffix] is _write_h5 else None


def _write_npz(path: Path, vectors: WordVectors) -> None:
    shape = (len(vectors.words), vectors.dim)
    with zipfile.ZipFile(path, "w") as archive:
        add_pieces(archive, "vectors", shape, "<f4", vectors.portions)
        add_strings(archive, "word", Strings.of(vectors.words))


def _write_parquet(path: Path, vectors: WordVectors) -> None:
    pa: Any = require_extra("pyarrow", "parquet")
    parquet: Any = require_extra("pyarrow.parquet", "parquet")
    schema = pa.schema({"word": pa.string(), "vector": pa.list_(pa.float32(), vectors.dim)}.items())
    first = 0
    with parquet.ParquetWriter(path, schema) as writer:
        for portion in vectors.portions:
            words = pa.array(vectors.words[first : first + len(portion)], pa.string())
            numbers = pa.array(portion.ravel(), pa.float32())
            rows = pa.FixedSizeListArray.from_arrays(numbers, vectors.dim)
            writer.write_table(pa.table({"word": words, "vector": rows}, schema=schema))
            first += len(portion)


def _write_h5(path: Path, vectors: WordVectors) -> None:
    h5py: Any = require_extra("h5py", "official")
    first = 0
    with h5py.File(path, "w") as file:
        rows = file.create_dataset(DATASET, (len(vectors.words), vectors.dim), "float32")
        for portion in vectors.portions:
            rows[first : first + len(portion)] = portion
            first += len(portion)


_WRITERS: dict[str, Callable[[Path, WordVectors], None]] = {
    ".npz": _write_npz,
    ".parquet": _write_parquet,
    ".h5": _write_h5,
    ".hdf5": _write_h5,
}
