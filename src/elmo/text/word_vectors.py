"""Word vectors in word2vec's two formats or in GloVe's, read for the words that are wanted."""

from __future__ import annotations

import gzip
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import BinaryIO, Literal, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from elmo.errors import UserError
from elmo.files import atomic_write, explained, require_regular
from elmo.text.vocabulary import Vocabulary

TEXT, BINARY = (".txt", ".vec"), (".bin",)
LARGEST_DIMENSION = 100_000
LONGEST_WORD = 1 << 16
LONGEST_LINE = LONGEST_WORD + 64 * LARGEST_DIMENSION
Floats = NDArray[np.float32]


class _Header(NamedTuple):
    format: Literal["text", "binary", "glove"]
    size: int
    announced: int  # vectors that the first line announces; 0 for GloVe, which has no such line


def read_word_vectors(path: Path, vocabulary: Vocabulary) -> dict[int, Floats]:
    """The vectors of the words that a vocabulary knows, by id.

    A word that the file does not hold takes the vector of its lower-case form: much-used vectors
    are of lower-case words.
    """
    lowered = defaultdict[str, list[int]](list)
    for idx, word in enumerate(vocabulary.words):
        if word != word.lower():
            lowered[word.lower()].append(idx)
    same, other = dict[int, Floats](), dict[int, Floats]()
    for word, vector in all_word_vectors(path):
        if word in vocabulary.ids:
            same.setdefault(vocabulary.ids[word], vector)
        for idx in lowered.get(word, ()):
            other.setdefault(idx, vector)
    return other | same


def all_word_vectors(path: Path) -> Iterator[tuple[str, Floats]]:
    """Every word of a file with its vector, one at a time."""
    read = 0
    try:
        with _open(path) as stream:
            first = stream.readline(LONGEST_LINE)
            header = _parse_header(path, first)
            if header.format == "binary":
                vectors = _read_binary(stream, header)
            else:
                vectors = _read_text(path, stream, header, first)
            for word, vector in vectors:
                if not np.isfinite(vector).all():
                    raise UserError(f"{path}: the vector of {word!r} is not finite")
                read += 1
                yield word, vector
    except (EOFError, gzip.BadGzipFile) as error:
        raise UserError(f"{path}: cut short or damaged ({error})") from None
    except OSError as error:
        raise explained(error, path) from error
    if read < header.announced:
        raise UserError(f"{path}: cut short, {read:,} of {header.announced:,} vectors are there")


def vector_size(path: Path) -> int:
    """How many numbers a vector of the file has."""
    try:
        with _open(path) as stream:
            return _parse_header(path, stream.readline(LONGEST_LINE)).size
    except OSError as error:
        raise explained(error, path) from error


def _open(path: Path) -> BinaryIO:
    require_regular(path)
    return cast("BinaryIO", gzip.open(path) if path.suffix == ".gz" else path.open("rb"))


def _parse_header(path: Path, first: bytes) -> _Header:
    """word2vec's first line has the number of words and their dimension; GloVe's is a vector."""
    fields = first.split()
    if len(fields) == 2 and all(field.isdigit() for field in fields):
        count, size = int(fields[0]), int(fields[1])
        if not 1 <= size <= LARGEST_DIMENSION:
            raise UserError(f"{path}: vectors of {size} numbers; expected 1 to {LARGEST_DIMENSION}")
        with _open(path) as stream:  # text if the second line is a word and `size` numbers
            stream.readline(LONGEST_LINE)
            values = stream.readline(64 * (size + 2)).rstrip().rsplit(b" ", size)
        is_text = len(values) == size + 1 and _are_numbers(values[1:])
        return _Header("text" if is_text else "binary", size, count)
    size = len(fields) - 1
    if 1 <= size <= LARGEST_DIMENSION and _are_numbers(fields[1:]):
        return _Header("glove", size, 0)
    raise UserError(
        f"{path}: expected word2vec format, whose first line holds the number of words and "
        f"their dimension, or GloVe's, whose lines are a word and its numbers; got {first[:60]!r}"
    )


def _are_numbers(fields: Sequence[bytes]) -> bool:
    try:
        for field in fields:
            float(field)
    except ValueError:
        return False
    return True


def _read_text(
    path: Path, stream: BinaryIO, header: _Header, first: bytes
) -> Iterator[tuple[str, Floats]]:
    lines = iter(lambda: stream.readline(LONGEST_LINE), b"")
    is_glove = header.format == "glove"
    numbered = enumerate(chain([first], lines) if is_glove else lines, start=1 if is_glove else 2)
    for number, line in numbered:
        word, *values = line.rstrip().rsplit(b" ", header.size)
        try:
            vector = np.array(values, np.float32)
        except ValueError:
            vector = np.empty(0, np.float32)
        if len(vector) != header.size:
            raise UserError(f"{path}, line {number}: expected a word and {header.size} numbers")
        yield word.decode("utf-8", "replace"), vector


def _read_binary(stream: BinaryIO, header: _Header) -> Iterator[tuple[str, Floats]]:
    """Until all announced vectors are read, or the file ends."""
    for _ in range(header.announced):
        word = bytearray()
        while (byte := stream.read(1)) not in (b" ", b"") and len(word) < LONGEST_WORD:
            word += byte
        content = stream.read(4 * header.size)
        if len(content) < 4 * header.size:
            return
        yield word.lstrip(b"\n").decode("utf-8", "replace"), np.frombuffer(content, np.float32)


def check_word_vector_file(path: Path) -> None:
    """Raise a `UserError` if word vectors cannot be written to a file of this name."""
    if path.suffix not in TEXT + BINARY:
        raise UserError(
            f"{path}: expected a name that ends in {', '.join(TEXT)} (text) or "
            f"{', '.join(BINARY)} (binary)"
        )
    if path.is_dir():
        raise UserError(f"{path}: this is a folder, a file was expected")


def write_word_vectors(path: Path, words: Sequence[str], vectors: Floats) -> None:
    """Write word2vec's text or binary format, by the suffix, without losing a bit."""
    check_word_vector_file(path)
    for word in words:
        if word.split() != [word]:
            raise UserError(
                f"expected words without white space, which is what separates them in such a "
                f"file; got {word!r}"
            )
    with atomic_write(path) as temporary, temporary.open("wb") as stream:
        stream.write(f"{len(words)} {vectors.shape[1]}\n".encode())
        for word, vector in zip(words, vectors.astype("<f4"), strict=True):
            if path.suffix in TEXT:  # nine digits tell any two float32 apart
                numbers: list[float] = vector.tolist()
                content = " ".join([f"{number:.9g}" for number in numbers]).encode()
            else:
                content = vector.tobytes()
            stream.write(word.encode() + b" " + content + b"\n")
