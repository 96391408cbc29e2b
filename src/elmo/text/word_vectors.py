"""Word vectors in word2vec's two formats, text and binary, read for the words that are wanted."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, cast

import numpy as np
from numpy.typing import NDArray

from elmo.errors import UserError
from elmo.files import explained
from elmo.text.vocabulary import Vocabulary

LARGEST_DIMENSION = 100_000
Floats = NDArray[np.float32]


def read_word_vectors(path: Path, vocabulary: Vocabulary) -> dict[int, Floats]:
    """The vectors of the words that a vocabulary knows, by id."""
    pairs = all_word_vectors(path)
    return {vocabulary.ids[word]: vector for word, vector in pairs if word in vocabulary.ids}


def all_word_vectors(path: Path) -> Iterator[tuple[str, Floats]]:
    """Every word of a file with its vector, one at a time."""
    try:
        with _opened(path) as stream:
            count, size = _header(path, stream.readline())
            read = _text if _looks_like_text(path, size) else _binary
            yield from read(path, stream, count, size)
    except (EOFError, gzip.BadGzipFile) as error:
        raise UserError(f"{path}: cut short or damaged ({error})") from None
    except OSError as error:
        raise explained(error, path) from error


def vector_size(path: Path) -> int:
    """The dimension that the file's first line announces."""
    try:
        with _opened(path) as stream:
            return _header(path, stream.readline())[1]
    except OSError as error:
        raise explained(error, path) from error


def _opened(path: Path) -> BinaryIO:
    return cast("BinaryIO", gzip.open(path) if path.suffix == ".gz" else path.open("rb"))


def _header(path: Path, line: bytes) -> tuple[int, int]:
    parts = line.split()
    if len(parts) != 2 or not all(part.isdigit() for part in parts):
        raise UserError(
            f"{path}: expected word2vec format, whose first line holds the number of words and "
            f"their dimension; got {line[:60]!r}"
        )
    count, size = int(parts[0]), int(parts[1])
    if not 1 <= size <= LARGEST_DIMENSION:
        raise UserError(f"{path}: vectors of {size} numbers; expected 1 to {LARGEST_DIMENSION}")
    return count, size


def _looks_like_text(path: Path, size: int) -> bool:
    """Whether the second line is a word and `size` numbers."""
    with _opened(path) as stream:
        stream.readline()
        fields = stream.readline(64 * (size + 2)).rstrip().rsplit(b" ", size)
    try:
        return len([float(field) for field in fields[1:]]) == size
    except ValueError:
        return False


def _text(path: Path, stream: BinaryIO, count: int, size: int) -> Iterator[tuple[str, Floats]]:
    number = 1
    for number, line in enumerate(stream, start=2):
        word, *values = line.rstrip().rsplit(b" ", size)
        try:
            vector = np.array(values, np.float32)
        except ValueError:
            vector = np.empty(0, np.float32)
        if len(vector) != size:
            raise UserError(f"{path}, line {number}: expected a word and {size} numbers")
        yield word.decode("utf-8", "replace"), vector
    if number - 1 < count:
        raise _cut_short(path, number - 1, count)


def _binary(path: Path, stream: BinaryIO, count: int, size: int) -> Iterator[tuple[str, Floats]]:
    for number in range(count):
        word = _word(stream)
        content = stream.read(4 * size)
        if len(content) < 4 * size:
            raise _cut_short(path, number, count)
        yield word, np.frombuffer(content, np.float32)


def _cut_short(path: Path, number: int, count: int) -> UserError:
    return UserError(f"{path}: cut short, {number:,} of {count:,} vectors are there")


def _word(stream: BinaryIO) -> str:
    """Bytes up to a space, and at most a line's worth of them."""
    word = bytearray()
    while (byte := stream.read(1)) not in (b" ", b"") and len(word) < 1 << 16:
        word += byte
    return word.lstrip(b"\n").decode("utf-8", "replace")
