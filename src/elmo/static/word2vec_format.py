"""Word vectors written in word2vec's two formats, without losing a bit of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from elmo.errors import UserError
from elmo.files import written_whole

Floats = NDArray[np.float32]
TEXT, BINARY = (".txt", ".vec"), (".bin",)


def check_word_vector_file(path: Path) -> None:
    """Say before any work is done that a file cannot be written."""
    if path.suffix not in TEXT + BINARY:
        raise UserError(
            f"{path}: expected a name that ends in {', '.join(TEXT)} (text) or "
            f"{', '.join(BINARY)} (binary)"
        )
    if path.is_dir():
        raise UserError(f"{path}: this is a folder, a file was expected")


def write_word_vectors(path: Path, words: Sequence[str], vectors: Floats) -> None:
    """Write a whole file; its name says which format."""
    check_word_vector_file(path)
    _check_words(words)
    write_row = _write_text if path.suffix in TEXT else _write_binary
    with written_whole(path) as beside, beside.open("wb") as stream:
        stream.write(f"{len(words)} {vectors.shape[1]}\n".encode())
        for word, vector in zip(words, vectors.astype("<f4"), strict=True):
            stream.write(word.encode() + b" ")
            write_row(stream, vector)
            stream.write(b"\n")


def _write_text(stream: BinaryIO, vector: Floats) -> None:
    # Nine digits tell any two numbers of single precision apart.
    numbers: list[float] = vector.tolist()
    stream.write(" ".join([f"{number:.9g}" for number in numbers]).encode())


def _write_binary(stream: BinaryIO, vector: Floats) -> None:
    stream.write(vector.tobytes())


def _check_words(words: Sequence[str]) -> None:
    for word in words:
        if word.split() != [word]:
            raise UserError(
                f"expected words without white space, which is what parts them in such a file; "
                f"got {word!r}"
            )
