"""Generated news: the corpus that a study runs on where no texts are named.

news.jsonl.xz has 6,000 training and 1,500 test items in four classes, drawn from a grammar by
benchmarks/invented_news.py, which knows what the ambiguous words in them mean.
"""

from __future__ import annotations

import json
import lzma
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from elmo.errors import UserError

NEWS = Path(__file__).with_name("news.jsonl.xz")


@dataclass(frozen=True)
class SenseMark:
    """An ambiguous word and what it means; `place` is its index among `tokenize_words`."""

    place: int
    word: str
    sense: str


@dataclass(frozen=True)
class NewsItem:
    """A piece of invented news, and its ambiguous words in order."""

    text: str
    label: str
    senses: tuple[SenseMark, ...]


def read_news(part: Literal["train", "test"]) -> list[NewsItem]:
    """The items of a part: classes of equal size in random order."""
    with lzma.open(NEWS, "rt", encoding="utf-8") as stream:
        entries = [entry for entry in map(json.loads, stream) if entry["part"] == part]
    return [
        NewsItem(entry["text"], entry["label"], tuple(SenseMark(**it) for it in entry["senses"]))
        for entry in entries
    ]


def sense_accuracy(
    vectors: NDArray[np.floating], words: Sequence[str], senses: Sequence[str], rows: Sequence[int]
) -> dict[str, float]:
    """How often the nearest occurrence of the same word, in another text, has the same sense.

    Occurrences that are equally near share the vote, so that a vector which is the same in every
    text, as a static embedding's, scores chance exactly.

    Args:
        vectors: one per occurrence of an ambiguous word, (n, dim).
        rows: which text each occurrence is in.

    Returns:
        accuracy; chance, what a random occurrence in another text gives; and occurrences, those
        that have another one to be compared with.
    """
    forms = np.unique(words, return_inverse=True)[1]
    meanings = np.unique(senses, return_inverse=True)[1]
    texts = np.asarray(rows)
    right = chance = occurrences = 0.0
    for form in range(forms.max(initial=-1) + 1):
        of_form = np.flatnonzero(forms == form)
        exact = vectors[of_form].astype(np.float64)
        norms = np.linalg.norm(exact, axis=1, keepdims=True)
        directions = exact / np.where(norms > 0, norms, 1)
        others = texts[of_form, None] != texts[of_form]  # (occurrences, occurrences)
        compared = others.any(1)
        others = others[compared]
        same = (meanings[of_form, None] == meanings[of_form])[compared]
        cosines = np.where(others, (directions @ directions.T)[compared], -np.inf)
        # Cosines of equal vectors differ by rounding, which is less than 1e-6.
        nearest = cosines >= cosines.max(1, keepdims=True, initial=-np.inf) - 1e-6
        right += float(((same & nearest).sum(1) / nearest.sum(1)).sum())
        chance += float(((same & others).sum(1) / others.sum(1)).sum())
        occurrences += int(compared.sum())
    if not occurrences:
        raise UserError("expected a word that occurs in two texts at least, but there is none")
    return {
        "accuracy": right / occurrences,
        "chance": chance / occurrences,
        "occurrences": int(occurrences),
    }
