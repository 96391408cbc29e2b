"""Results without the characters that no page can hold: texts of strangers may have any."""

from __future__ import annotations

import unicodedata
from typing import Any, cast

from elmo.config import from_json, to_json
from elmo.study.results import StudyResults

_REPLACED = "\N{REPLACEMENT CHARACTER}"


def printable(results: StudyResults) -> StudyResults:
    """The same results, with control characters and halves of characters replaced."""
    return from_json(StudyResults, _cleaned(to_json(results)), "results")


def printable_text(text: str) -> str:
    """The text, each character that XML or UTF-8 cannot hold replaced."""
    if text.isprintable():
        return text
    return "".join(map(_printable_character, text))


def _printable_character(character: str) -> str:
    if character in "\t\n\r":
        return " "
    category = unicodedata.category(character)
    lost = category in ("Cc", "Cs") or ord(character) & 0xFFFE == 0xFFFE
    return _REPLACED if lost else character


def _cleaned(value: Any) -> Any:
    if isinstance(value, str):
        return printable_text(value)
    if isinstance(value, dict):
        return {key: _cleaned(item) for key, item in cast("dict[str, Any]", value).items()}
    if isinstance(value, (list, tuple)):
        return [_cleaned(item) for item in cast("list[Any]", value)]
    return value
