"""Texts with blanks: where the blanks are, and what the model reads in their place."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from elmo.errors import UserError
from elmo.text.vocabulary import SPECIAL_WORDS, UNKNOWN

if TYPE_CHECKING:  # so that a command can tell how a blank is written without loading torch
    from elmo.checkpoint import LoadedModel, Text

BLANK = "___"


@dataclass(frozen=True)
class BlankedText:
    """The words of a text, the unknown word standing in each blank."""

    words: tuple[str, ...]
    blanks: tuple[int, ...]
    """Which of the words are blanks, counted from 0."""


def find_blanks(loaded: LoadedModel, text: Text, blank: str = BLANK) -> BlankedText:
    """Read a text that has at least one blank."""
    if not blank:
        raise UserError(f"blank: expected a mark such as {BLANK!r}, got nothing")
    first, *rest = _cut(text, blank)
    if not rest:
        shown = text if isinstance(text, str) else " ".join(text)
        raise UserError(
            f"expected a text with a blank, such as 'the {blank} sat', but got {shown!r:.80}; "
            "put the mark where a word is to be found"
        )
    words, blanks = loaded.words(first), list[int]()
    for piece in rest:
        blanks.append(len(words))
        words += [SPECIAL_WORDS[UNKNOWN], *loaded.words(piece)]
    return BlankedText(tuple(words), tuple(blanks))


def _cut(text: Text, blank: str) -> Sequence[Text]:
    """Cut before the text is tokenised: no tokenizer needs to know what a blank is."""
    if not isinstance(text, str):
        return _cut_words(text, blank)
    # A blank that is drawn longer is still one blank.
    longer = "_*" if not blank.strip("_") else ""
    return re.split(re.escape(blank) + longer, text)


def _cut_words(words: Sequence[str], blank: str) -> list[list[str]]:
    pieces: list[list[str]] = [[]]
    for word in words:
        if word == blank:
            pieces.append([])
        else:
            pieces[-1].append(word)
    return pieces
