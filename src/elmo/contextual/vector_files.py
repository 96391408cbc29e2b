"""Parts become one file, a part in memory at a time: .npz, .parquet, .h5 or .hdf5.

npz      vectors: a row a text (pooled) or a word (tokens); of all layers, (rows, layers, dim);
         offsets: the words of text i are the rows offsets[i] to offsets[i + 1] (tokens only);
         lengths: words a text; a pooled text of none has zeros for a vector;
         texts: UTF-8, text i is the bytes text_offsets[i] to text_offsets[i + 1];
         words: the same, with word_offsets: the words of a text as a JSON list
parquet  id, text, tokens, vector: a row a text; vectors are lists (of words) (of layers) of numbers
h5       "0", "1", …: a dataset a text, (dim,) or (words, dim), of all layers (layers, …);
         "sentences": the texts; "words": the words of each as a JSON list
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elmo.contextual.encoder import Vectors
from elmo.contextual.npz import add_numbers, add_pieces, add_strings, offsets
from elmo.contextual.vector_parts import TEXTS, VECTORS, WORDS, PartsFolder, PartTexts
from elmo.errors import UserError, require_extra
from elmo.files import written_whole


def check_vector_file(path: Path) -> None:
    """Make sure, before the work begins, that a file of this name can be written."""
    if path.suffix not in _WRITERS:
        endings = ", ".join(_WRITERS)
        raise UserError(f"{path}: expected a name that ends in one of {endings}")
    if path.suffix == ".parquet":
        require_extra("pyarrow", "parquet")
    if path.suffix in (".h5", ".hdf5"):
        require_extra("h5py", "official")
    if path.exists():
        raise UserError(f"{path} is there already; delete it, or choose another name")


def write_vector_file(path: Path, parts: PartsFolder, *, pooled: bool) -> None:
    """Write all parts to a file that is whole or not there."""
    with written_whole(path) as beside:
        _WRITERS[path.suffix](beside, parts, pooled)


def _write_npz(path: Path, parts: PartsFolder, pooled: bool) -> None:
    lengths = parts.lengths()
    with zipfile.ZipFile(path, "w") as archive:
        add_pieces(archive, "vectors", parts.shape(), "<f4", parts.arrays(VECTORS))
        add_numbers(archive, "lengths", lengths)
        if not pooled:
            add_numbers(archive, "offsets", offsets(lengths))
        add_strings(archive, "text", parts.strings(TEXTS))
        add_strings(archive, "word", parts.strings(WORDS))


def vector_table(ids: Sequence[int], texts: PartTexts, vectors: Vectors, *, pooled: bool) -> Any:
    """Texts and their vectors as an Arrow table, a row a text."""
    pa: Any = require_extra("pyarrow", "parquet")
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "text": pa.array(texts.texts, pa.string()),
            "tokens": pa.array(texts.words, pa.list_(pa.string())),
            "vector": _nested(pa, vectors, None if pooled else texts.lengths),
        }
    )


def _write_parquet(path: Path, parts: PartsFolder, pooled: bool) -> None:
    parquet: Any = require_extra("pyarrow.parquet", "parquet")
    writer: Any = None
    first = 0
    for texts, vectors in zip(parts.texts(), parts.arrays(VECTORS), strict=True):
        last = first + len(texts.texts)
        table = vector_table(range(first, last), texts, vectors, pooled=pooled)
        writer = writer or parquet.ParquetWriter(path, table.schema)
        writer.write_table(table)
        first = last
    writer.close()


def _nested(pa: Any, vectors: Vectors, lengths: NDArray[np.int64] | None) -> Any:
    """Vectors as lists of numbers (of layers), grouped by text where there is a row a word."""
    nested = pa.array(vectors.ravel(), pa.float32())
    for size in reversed(vectors.shape[1:]):
        nested = pa.FixedSizeListArray.from_arrays(nested, size)
    if lengths is None:
        return nested
    return pa.LargeListArray.from_arrays(pa.array(offsets(lengths), pa.int64()), nested)


def _write_h5(path: Path, parts: PartsFolder, pooled: bool) -> None:
    h5py: Any = require_extra("h5py", "official")
    with h5py.File(path, "w") as file:
        string, number = h5py.string_dtype("utf-8"), len(parts.lengths())
        sentences = file.create_dataset("sentences", number, dtype=string)
        words = file.create_dataset("words", number, dtype=string)
        first = 0
        for texts, vectors in zip(parts.texts(), parts.arrays(VECTORS), strict=True):
            last = first + len(texts.texts)
            for place, one in enumerate(_of_each_text(vectors, texts, pooled=pooled), start=first):
                file[str(place)] = one
            # The format ends a string where it has a zero.
            sentences[first:last] = [one.replace("\0", "\ufffd") for one in texts.texts]
            words[first:last] = [json.dumps(some, ensure_ascii=False) for some in texts.words]
            first = last


def _of_each_text(vectors: Vectors, texts: PartTexts, *, pooled: bool) -> Iterator[Vectors]:
    """What encode gives for each text."""
    if pooled:
        yield from vectors
        return
    for one in np.split(vectors, np.cumsum(texts.lengths)[:-1]):
        yield one.swapaxes(0, 1) if one.ndim == 3 else one


_WRITERS: dict[str, Callable[[Path, PartsFolder, bool], None]] = {
    ".npz": _write_npz,
    ".parquet": _write_parquet,
    ".h5": _write_h5,
    ".hdf5": _write_h5,
}
