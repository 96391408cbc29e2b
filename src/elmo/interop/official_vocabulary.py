"""Vocabulary files of official models: a word a line, most frequent first, no counts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from elmo.errors import UserError
from elmo.files import read_text, write_text
from elmo.text.vocabulary import LARGEST_FILE, SPECIAL_WORDS, Vocabulary, read_counts

FILE = "vocab.txt"


def vocabulary_beside(path: Path) -> Path | None:
    """The one vocab*.txt in the folder of a file, if there is one."""
    found = sorted(path.parent.glob("vocab*.txt"))
    if len(found) > 1:
        names = ", ".join(one.name for one in found)
        raise UserError(
            f"{path.parent}: expected at most one vocabulary, but there are {names}; keep the one "
            "the model was trained with"
        )
    return found[0] if found else None


def read_words(path: Path) -> list[str]:
    """The words of a file, in its order."""
    lines = read_text(path, LARGEST_FILE).removesuffix("\n").split("\n")
    words = [line.strip() for line in lines]
    for number, word in enumerate(words, start=1):
        if not word or "\t" in word:
            raise UserError(f"{path}, line {number}: expected one word; got {word[:80]!r}")
    return words


def read_any_words(path: Path) -> list[str]:
    """The same, or those of a vocabulary.txt of ours, where a tab and a count follow each."""
    first_line = read_text(path, LARGEST_FILE).partition("\n")[0]
    return read_counts(path)[0] if "\t" in first_line else read_words(path)


def character_vocabulary(words: Sequence[str]) -> Vocabulary:
    """The words a character model is known to have seen; it can read any other too."""
    others = [word for word in words if word not in SPECIAL_WORDS]
    return _uncounted((*SPECIAL_WORDS, *others))


def word_vocabulary(words: Sequence[str], path: Path) -> Vocabulary:
    """The words whose vectors a word model holds, row by row."""
    if tuple(words[:3]) != SPECIAL_WORDS:
        raise UserError(
            f"{path}: the vocabulary of a model of words must start with the lines "
            f"{', '.join(SPECIAL_WORDS)}, as bilm-tf asks for; it starts with {words[:3]}"
        )
    return _uncounted(tuple(words))


def save_words(path: Path, vocabulary: Vocabulary) -> None:
    """Write the words as the originals read them."""
    write_text(path, "".join(f"{word}\n" for word in vocabulary.words))


def _uncounted(words: tuple[str, ...]) -> Vocabulary:
    return Vocabulary(words, (0,) * len(words))
