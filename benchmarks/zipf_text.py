"""Random text whose words are as frequent as Zipf's law says, of any vocabulary and length."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from elmo.files import write_json
from elmo.text.corpus import FORMAT, ShardWriter
from elmo.text.vocabulary import BEGIN, END, SPECIAL_WORDS, Vocabulary


def zipf(words: int) -> np.ndarray:
    """How frequent each word is."""
    chances = 1 / np.arange(1, words - len(SPECIAL_WORDS) + 1)
    return np.concatenate([chances, np.zeros(len(SPECIAL_WORDS))]) / chances.sum()


def vocabulary(words: int) -> Vocabulary:
    """Words of the frequencies of the text."""
    names = (*SPECIAL_WORDS, *(f"word{rank}" for rank in range(words - len(SPECIAL_WORDS))))
    return Vocabulary(names, tuple(words // (rank + 1) + 1 for rank in range(words)))


def write_zipf_corpus(folder: Path, words: int, length: int, tokens: int) -> Path:
    """A prepared corpus of documents of one length, nothing held out; the same every time."""
    random = np.random.default_rng(0)
    documents = max(1, tokens // length)
    drawn = random.choice(words, (documents, length), p=zipf(words)) + len(SPECIAL_WORDS)
    writer = ShardWriter(folder / "train")
    for row in drawn.tolist():
        writer.add([BEGIN, *row, END])
    writer.close()
    vocabulary(words).save(folder / "lexicon.txt")
    write_json(folder / "corpus.json", {"format": FORMAT, "digest": "random"})
    return folder
