"""The sentences that stored activations belong to: slots read side by side, texts in order."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from elmo.config import from_json
from elmo.errors import UserError
from elmo.files import read_json, read_text

LARGEST_FILE = 1 << 30
Slot = list[list[str]]
"""Texts, as words, that are read one after the other."""


def read_slots(path: Path) -> list[Slot]:
    """Read sentences whose words have spaces between.

    JSON holds a list of sentences or, for several slots, a list of such lists of equal length;
    any other file a sentence a line.
    """
    slots = [[text.split() for text in slot] for slot in _texts(path)]
    if not slots or not slots[0] or any(not words for slot in slots for words in slot):
        raise UserError(f"{path}: expected sentences with words, but there is none or an empty one")
    if len({len(slot) for slot in slots}) > 1:
        raise UserError(f"{path}: expected as many sentences in each slot; they differ")
    return slots


def _texts(path: Path) -> Sequence[Sequence[str]]:
    if path.suffix != ".json":
        return [read_text(path, LARGEST_FILE).removesuffix("\n").split("\n")]
    found = cast("object", read_json(path, LARGEST_FILE))
    slots = [found] if _is_one_slot(found) else found
    return from_json(cast("Any", tuple[tuple[str, ...], ...]), slots, str(path))


def _is_one_slot(found: object) -> bool:
    sentences = cast("list[object]", found) if isinstance(found, list) else []
    return bool(sentences) and isinstance(sentences[0], str)
