"""A language of two topics whose words never meet."""

from __future__ import annotations

import numpy as np

from elmo.text.vocabulary import SPECIAL_WORDS, Vocabulary

COLOURS = ("red", "green", "blue", "white", "black")
TOOLS = ("saw", "axe", "drill", "plane", "chisel")
TOPICS = (COLOURS, TOOLS)


def topical_texts(texts: int = 200, length: int = 8) -> tuple[Vocabulary, list[list[str]]]:
    """Texts of either topic's words, in any order, and the vocabulary of both."""
    rng = np.random.default_rng(0)
    made = [
        [str(word) for word in rng.choice(TOPICS[number % 2], length)] for number in range(texts)
    ]
    words = COLOURS + TOOLS
    counts = [sum(text.count(word) for text in made) for word in words]
    return Vocabulary((*SPECIAL_WORDS, *words), (texts, texts, 0, *counts)), made
