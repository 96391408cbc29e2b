"""The words a model knows, most frequent first, with how often each was seen."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import repeat
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from elmo.config import from_json
from elmo.errors import UserError
from elmo.files import read_json, read_text, write_json, write_text

T = TypeVar("T")
START, END, UNKNOWN = 0, 1, 2
SPECIAL_WORDS = ("<S>", "</S>", "<UNK>")
MANY_LANGS_WORDS = ("<bos>", "<eos>", "<oov>")
"""What ELMoForManyLangs calls them; there `<S>` is a word like any other."""
LARGEST_FILE = 1 << 30
LONGEST_ROW = 1000  # far above any real model's: a damaged file must not allocate memory
SPELLING = "spelling.json"  # next to vocabulary.txt, if a model spells words by code points


@dataclass(frozen=True)
class Spelling:
    """How ELMoForManyLangs spells: by code points with ids of their own, not by UTF-8 bytes."""

    longest_word: int | None  # words are cut to this many code points, also for lookups
    characters: tuple[str, ...] = ()  # by id, the marks first; none for a model of whole words

    MARKS = ("<pad>", "<bow>", "<eow>", "<bos>", "<eos>", "<oov>")

    def __post_init__(self) -> None:
        if self.characters and self.characters[: len(self.MARKS)] != self.MARKS:
            raise UserError(f"the characters must start with {', '.join(self.MARKS)}")
        if len(self.ids) != len(self.characters):
            raise UserError("the characters hold one of them twice")
        if (self.longest_word is None and self.characters) or not (
            1 <= (self.longest_word or 1) <= LONGEST_ROW
        ):
            raise UserError(
                f"longest_word: expected 1 to {LONGEST_ROW} code points, got {self.longest_word}"
            )

    @cached_property
    def ids(self) -> dict[str, int]:
        return {character: idx for idx, character in enumerate(self.characters)}

    @property
    def row_length(self) -> int:
        """Number of characters in a row, the two marks of a word included."""
        return 2 + (self.longest_word or 0)

    def spell(self, word: str) -> NDArray[np.int64]:
        """The row of a word: `<eow>`, its code points, `<bow>`, padding.

        ELMoForManyLangs swapped the two marks by mistake, and all its models were trained that way.
        """
        _, bow, eow, bos, eos, oov = range(len(self.MARKS))
        row = np.zeros(self.row_length, dtype=np.int64)  # <pad> is 0
        boundary = {MANY_LANGS_WORDS[START]: bos, MANY_LANGS_WORDS[END]: eos}.get(word)
        content = [self.ids.get(sign, oov) for sign in word[: self.longest_word]]
        content = content if boundary is None else [boundary]
        row[: len(content) + 2] = [eow, *content, bow]
        return row


@dataclass(frozen=True)
class Vocabulary:
    """Words by id. The first three are the sentence boundaries and the unknown word."""

    words: tuple[str, ...]
    counts: tuple[int, ...]
    spelling: Spelling | None = None  # default: by UTF-8 bytes, as official models spell

    def __post_init__(self) -> None:
        special = SPECIAL_WORDS if self.spelling is None else MANY_LANGS_WORDS
        if self.words[:3] != special:
            raise UserError(f"a vocabulary must start with {', '.join(special)}")
        if len(self.words) != len(self.counts):
            raise UserError(f"{len(self.words):,} words but {len(self.counts):,} counts")
        if len(self.ids) != len(self.words):
            repeated = next(w for idx, w in enumerate(self.words) if self.ids[w] != idx)
            raise UserError(f"the vocabulary holds {repeated!r} twice")

    def __len__(self) -> int:
        return len(self.words)

    @cached_property
    def ids(self) -> dict[str, int]:
        return {word: idx for idx, word in enumerate(self.words)}

    def id(self, word: str) -> int:
        """The id of a word, or that of the unknown word."""
        return int(self.encode([word])[0])

    def encode(self, words: Iterable[str]) -> NDArray[np.int64]:
        """The ids of words, unknown ones included."""
        if self.spelling is not None and (longest := self.spelling.longest_word) is not None:
            words = (word[:longest] for word in words)
        return np.fromiter(map(self.ids.get, words, repeat(UNKNOWN)), dtype=np.int64)

    def unknown_rate(self, words: Sequence[str], counts: NDArray[np.int64]) -> float:
        """The fraction of running words, given as distinct words with counts, that is unknown."""
        unknown = self.encode(words) == UNKNOWN
        return float(counts[unknown].sum() / max(1, counts.sum()))

    @property
    def character_ids(self) -> int:
        """How many character ids there are, padding included."""
        return CHARACTER_IDS if self.spelling is None else len(self.spelling.characters)

    @property
    def padding(self) -> int:
        """The id of the character that fills a row."""
        return PADDING + SHIFT if self.spelling is None else 0

    def grown(self, words: Sequence[str], counts: Sequence[int]) -> Vocabulary:
        """This vocabulary and, after it, the new ones of `words`; old ids stay what they are."""
        new = [(w, c) for w, c in zip(words, counts, strict=True) if w not in self.ids]
        return Vocabulary(
            self.words + tuple(word for word, _ in new),
            self.counts + tuple(count for _, count in new),
            self.spelling,
        )

    def spelled_as(self, other: Vocabulary) -> Vocabulary:
        """These words with the spelling, and the names of special words, of another vocabulary."""
        if other.spelling is None:
            return self
        special = other.words[: len(SPECIAL_WORDS)]
        pairs = [(word, count) for word, count in zip(self.words, self.counts, strict=True)]
        pairs = [pair for pair in pairs[len(special) :] if pair[0] not in special]
        return Vocabulary(
            (*special, *(word for word, _ in pairs)),
            (*self.counts[: len(special)], *(count for _, count in pairs)),
            other.spelling,
        )

    def save(self, path: Path) -> None:
        """Write one line per word: the word, a tab, its count; the spelling next to it."""
        lines = (f"{w}\t{c}\n" for w, c in zip(self.words, self.counts, strict=True))
        if self.spelling is not None:
            write_json(path.with_name(SPELLING), asdict(self.spelling))
        write_text(path, "".join(lines))

    @classmethod
    def load(cls, path: Path) -> Vocabulary:
        """Read what `save` wrote, or say which line is wrong."""
        words, counts = read_counts(path)
        try:
            spelling = path.with_name(SPELLING)
            read = from_json(Spelling, read_json(spelling), SPELLING) if spelling.exists() else None
            return cls(tuple(words), tuple(counts), read)
        except UserError as error:
            raise UserError(f"{path}: {error}") from None


def build_vocabulary(
    words: Sequence[str],
    counts: Sequence[int],
    *,
    boundaries: int,
    min_count: int,
    max_size: int | None,
) -> Vocabulary:
    """Cut a list of words, most frequent first, into a vocabulary.

    `boundaries` is how often a text began (and ended); what is cut off counts as unknown.
    """
    room = len(words) if max_size is None else max(0, max_size - len(SPECIAL_WORDS))
    size = 0
    while size < min(room, len(words)) and counts[size] >= max(1, min_count):
        size += 1
    unknown = int(sum(counts[size:]))
    return Vocabulary(
        (*SPECIAL_WORDS, *words[:size]), (boundaries, boundaries, unknown, *counts[:size])
    )


def read_counts(path: Path) -> tuple[list[str], list[int]]:
    """Read lines of a word, a tab and a count."""
    words: list[str] = []
    counts: list[int] = []
    lines = read_text(path, LARGEST_FILE).removesuffix("\n").split("\n")
    for number, line in enumerate(lines, start=1):
        word, tab, count = line.partition("\t")
        if not tab or not word or not (count.isascii() and count.isdigit()) or len(count) > 18:
            raise UserError(
                f"{path}, line {number}: expected a word, a tab and a count; got {line[:80]!r}"
            )
        words.append(word)
        counts.append(int(count))
    return words, counts


class Shard(NamedTuple):
    """Texts as ids, end to end, boundaries included: in memory, or mapped from disk."""

    ids: NDArray[np.uint32]
    ends: NDArray[np.int64]  # where each text ends in `ids`

    @property
    def starts(self) -> NDArray[np.int64]:
        """Where each text starts in `ids`."""
        return np.concatenate([np.zeros(1, np.int64), self.ends[:-1]])


def chunked(items: Iterable[T], size: Callable[[T], int], least: int) -> Iterator[list[T]]:
    """Lists of texts, or other items, of at least this size in all; the last may have less."""
    chunk, total = list[T](), 0
    for item in items:
        chunk.append(item)
        total += size(item)
        if total >= least:
            yield chunk
            chunk, total = [], 0
    if chunk:
        yield chunk


# A word as a row of byte ids, exactly as the official ELMo models spell it.


ROW_LENGTH = 50
LONGEST_WORD = ROW_LENGTH - 2
BEGIN_SENTENCE, END_SENTENCE, BEGIN_WORD, END_WORD, PADDING = 256, 257, 258, 259, 260
SHIFT = 1  # added to every id, so that 0 is left for positions that hold no word at all
CHARACTER_IDS = PADDING + SHIFT + 1

_BOUNDARIES = {"<S>": BEGIN_SENTENCE, "</S>": END_SENTENCE}


def spell(word: str) -> NDArray[np.int64]:
    """The row of a word: begin, its UTF-8 bytes cut to 48, end, padding."""
    row = np.full(ROW_LENGTH, PADDING, dtype=np.int64)
    boundary = _BOUNDARIES.get(word)
    if boundary is not None:
        content = [boundary]
    else:
        content = list(word.encode("utf-8", errors="surrogatepass")[:LONGEST_WORD])
    row[0] = BEGIN_WORD
    row[1 : 1 + len(content)] = content
    row[1 + len(content)] = END_WORD
    return row + SHIFT


def spell_all(words: Sequence[str], spelling: Spelling | None = None) -> NDArray[np.int64]:
    """The rows of many words, (words, 50), or as long as the spelling of a model makes them."""
    if not words:
        length = ROW_LENGTH if spelling is None else spelling.row_length
        return np.zeros((0, length), dtype=np.int64)
    return np.stack([(spell if spelling is None else spelling.spell)(word) for word in words])
