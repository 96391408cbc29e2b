"""Copies and near copies among documents, in sixteen bytes a document."""

from __future__ import annotations

import hashlib
from array import array

import numpy as np

from elmo.text.corpus_report import Duplicates

LARGEST_COMPARED = 5_000_000
"""Documents whose hashes are kept: about 80 MB; those after them are not compared."""


class Copies:
    """Remembers of each document a hash of its text and one of the phrase that stands for it."""

    def __init__(self) -> None:
        self._texts = array("Q")
        self._phrases = array("Q")

    def add(self, text: str, phrase: int) -> None:
        """Take in one document and the hash of the phrase that stands for it."""
        if len(self._texts) < LARGEST_COMPARED:
            digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
            self._texts.append(int.from_bytes(digest, "little"))
            self._phrases.append(phrase)

    def count(self) -> Duplicates:
        """How many documents are copies of others."""
        texts = np.frombuffer(self._texts, np.uint64)
        _, firsts = np.unique(texts, return_index=True)
        phrases = np.unique(np.frombuffer(self._phrases, np.uint64)[firsts])
        return Duplicates(
            compared=len(texts), exact=len(texts) - len(firsts), near=len(firsts) - len(phrases)
        )
