"""Word vectors in word2vec's two formats or in GloVe's, read for the words that are wanted."""

from __future__ import annotations

import gzip
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import BinaryIO, Literal, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from elmo.errors import UserError
from elmo.files import explained, written_whole
from elmo.text.vocabulary import Vocabulary

LARGEST_DIMENSION = 100_000
Floats = NDArray[np.float32]


class _Kind(NamedTuple):
    """How a file is written."""

    format: Literal["text", "binary", "glove"]
    size: int
    announced: int
    """How many vectors the first line speaks of; GloVe's files have no such line."""


def read_word_vectors(path: Path, vocabulary: Vocabulary) -> dict[int, Floats]:
    """The vectors of the words that a vocabulary knows, by id.

    A word that the file does not hold takes the vector of its lower-case form: much-used vectors
    are of lower-case words.
    """
    lowered = defaultdict[str, list[int]](list)
    for place, word in enumerate(vocabulary.words):
        if word != word.lower():
            lowered[word.lower()].append(place)
    same, other = dict[int, Floats](), dict[int, Floats]()
    for word, vector in all_word_vectors(path):
        if word in vocabulary.ids:
            same.setdefault(vocabulary.ids[word], vector)
        for place in lowered.get(word, ()):
            other.setdefault(place, vector)
    return other | same


def all_word_vectors(path: Path) -> Iterator[tuple[str, Floats]]:
    """Every word of a file with its vector, one at a time."""
    try:
        with _opened(path) as stream:
            first = stream.readline()
            for word, vector in _vectors(path, first, stream):
                if not np.isfinite(vector).all():
                    raise UserError(f"{path}: the vector of {word!r} is not finite")
                yield word, vector
    except (EOFError, gzip.BadGzipFile) as error:
        raise UserError(f"{path}: cut short or damaged ({error})") from None
    except OSError as error:
        raise explained(error, path) from error


def vector_size(path: Path) -> int:
    """How many numbers a vector of the file has."""
    try:
        with _opened(path) as stream:
            return _kind(path, stream.readline()).size
    except OSError as error:
        raise explained(error, path) from error


def _vectors(path: Path, first: bytes, stream: BinaryIO) -> Iterator[tuple[str, Floats]]:
    kind = _kind(path, first)
    if kind.format == "glove":
        return _text(path, chain([first], stream), kind, first_line=1)
    if kind.format == "text":
        return _text(path, stream, kind, first_line=2)
    return _binary(path, stream, kind)


def _opened(path: Path) -> BinaryIO:
    return cast("BinaryIO", gzip.open(path) if path.suffix == ".gz" else path.open("rb"))


def _kind(path: Path, first: bytes) -> _Kind:
    """What the first line says: how many vectors of which size, or it is a vector itself."""
    parts = first.split()
    if len(parts) == 2 and all(part.isdigit() for part in parts):
        count, size = int(parts[0]), int(parts[1])
        if not 1 <= size <= LARGEST_DIMENSION:
            raise UserError(f"{path}: vectors of {size} numbers; expected 1 to {LARGEST_DIMENSION}")
        return _Kind("text" if _looks_like_text(path, size) else "binary", size, count)
    size = len(parts) - 1
    if 1 <= size <= LARGEST_DIMENSION and _are_numbers(parts[1:]):
        return _Kind("glove", size, 0)
    raise UserError(
        f"{path}: expected word2vec format, whose first line holds the number of words and "
        f"their dimension, or GloVe's, whose lines are a word and its numbers; got {first[:60]!r}"
    )


def _looks_like_text(path: Path, size: int) -> bool:
    """Whether the second line is a word and `size` numbers."""
    with _opened(path) as stream:
        stream.readline()
        fields = stream.readline(64 * (size + 2)).rstrip().rsplit(b" ", size)
    return len(fields) == size + 1 and _are_numbers(fields[1:])


def _are_numbers(fields: Sequence[bytes]) -> bool:
    try:
        for field in fields:
            float(field)
    except ValueError:
        return False
    return True


def _text(
    path: Path, lines: Iterable[bytes], kind: _Kind, first_line: int
) -> Iterator[tuple[str, Floats]]:
    found = 0
    for number, line in enumerate(lines, start=first_line):
        word, *values = line.rstrip().rsplit(b" ", kind.size)
        try:
            vector = np.array(values, np.float32)
        except ValueError:
            vector = np.empty(0, np.float32)
        if len(vector) != kind.size:
            raise UserError(f"{path}, line {number}: expected a word and {kind.size} numbers")
        found += 1
        yield word.decode("utf-8", "replace"), vector
    if found < kind.announced:
        raise _cut_short(path, found, kind.announced)


def _binary(path: Path, stream: BinaryIO, kind: _Kind) -> Iterator[tuple[str, Floats]]:
    for number in range(kind.announced):
        word = _word(stream)
        content = stream.read(4 * kind.size)
        if len(content) < 4 * kind.size:
            raise _cut_short(path, number, kind.announced)
        yield word, np.frombuffer(content, np.float32)


def _cut_short(path: Path, number: int, count: int) -> UserError:
    return UserError(f"{path}: cut short, {number:,} of {count:,} vectors are there")


def _word(stream: BinaryIO) -> str:
    """Bytes up to a space, and at most a line's worth of them."""
    word = bytearray()
    while (byte := stream.read(1)) not in (b" ", b"") and len(word) < 1 << 16:
        word += byte
    return word.lstrip(b"\n").decode("utf-8", "replace")


# Word vectors written in word2vec's two formats, without losing a bit of them.

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
