"""The notation of the grammar: {rule}, {rule:name} to be repeated, (one|of|these), [perhaps]."""

from __future__ import annotations

import re
from dataclasses import dataclass

_PIECE = re.compile(r"[{}()\[\]|]|[^{}()\[\]|]+")
_CLOSING = {"(": ")", "[": "]"}


@dataclass(frozen=True)
class Slot:
    """A place that a rule fills; what has a name is filled once, then repeated in the item."""

    rule: str
    name: str | None


@dataclass(frozen=True)
class Choice:
    """A place that one of several templates fills, each as probable as the others."""

    options: tuple[Template, ...]


Template = tuple[str | Slot | Choice, ...]


def parse_options(text: str) -> tuple[Template, ...]:
    """Read templates that are separated by bars."""
    reader = _Reader(_PIECE.findall(text))
    options = reader.options("")
    if reader.place < len(reader.pieces):
        raise ValueError(f"{reader.pieces[reader.place]!r} was never opened in {text!r}")
    return options


@dataclass
class _Reader:
    """Reads pieces one by one; brackets inside brackets make it call itself."""

    pieces: list[str]
    place: int = 0

    def options(self, closing: str) -> tuple[Template, ...]:
        """Read up to a closing bracket, which is left for the caller."""
        found = [self._template(closing)]
        while self._next() == "|":
            self.place += 1
            found.append(self._template(closing))
        return tuple(found)

    def _template(self, closing: str) -> Template:
        parts: list[str | Slot | Choice] = []
        while (piece := self._next()) not in ("", "|", ")", "]", closing):
            self.place += 1
            parts.append(self._part(piece))
        return tuple(parts)

    def _part(self, piece: str) -> str | Slot | Choice:
        if piece == "{":
            rule, _, name = self._take().partition(":")
            self._expect("}")
            return Slot(rule, name or None)
        if piece in _CLOSING:
            options = self.options(_CLOSING[piece])
            self._expect(_CLOSING[piece])
            return Choice((*options, ()) if piece == "[" else options)
        return piece

    def _next(self) -> str:
        return self.pieces[self.place] if self.place < len(self.pieces) else ""

    def _take(self) -> str:
        piece = self._next()
        self.place += 1
        return piece

    def _expect(self, closing: str) -> None:
        if (found := self._take()) != closing:
            raise ValueError(
                f"expected {closing!r}, found {found or 'the end'!r} in {''.join(self.pieces)!r}"
            )
