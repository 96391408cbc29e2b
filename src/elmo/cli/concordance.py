"""Words in their sentences, one below the other, the sentences cut to fit the terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

GAP = "  "


@dataclass(frozen=True)
class Line:
    """A word in its sentence, and what is told of it."""

    label: str
    words: Sequence[str]
    position: int

    @property
    def word(self) -> str:
        """The word that is marked."""
        return self.words[self.position]


def print_concordance(lines: Sequence[Line], console: Console | None = None) -> None:
    """Print a line each, the words below each other: bold in a terminal, in «» elsewhere."""
    console = console or Console()
    labels = _aligned([line.label for line in lines])
    words = _aligned([line.word if console.is_terminal else f"«{line.word}»" for line in lines])
    room = console.width - cell_len(labels[0] + words[0]) - 3 * len(GAP)
    before = _aligned([_before(line, room // 2) for line in lines], right=True)
    behind = [_behind(line, room - cell_len(before[0])) for line in lines]
    for label, left, word, right in zip(labels, before, words, behind, strict=True):
        text = Text.assemble(label, GAP, left, GAP, (word, "bold"), GAP, right)
        text.rstrip()
        console.print(text, soft_wrap=True, highlight=False)


def _before(line: Line, width: int) -> str:
    return " ".join(reversed(fitting(reversed(line.words[: line.position]), width)))


def _behind(line: Line, width: int) -> str:
    return " ".join(fitting(line.words[line.position + 1 :], width))


def fitting(words: Iterable[str], width: int) -> list[str]:
    """As many of the words as fit, with a sign behind them if not all do."""
    found: list[str] = []
    for word in words:
        if cell_len(" ".join((*found, word))) > width:
            return _with_sign(found, width)
        found.append(word)
    return found


def _with_sign(words: list[str], width: int) -> list[str]:
    """Leave words out until there is room for the sign."""
    while words and cell_len(" ".join((*words, "…"))) > width:
        words = words[:-1]
    return [*words, "…"]


def _aligned(texts: Sequence[str], *, right: bool = False) -> list[str]:
    """Make all as wide as the widest; some characters take two cells."""
    widest = max(map(cell_len, texts))
    blanks = [" " * (widest - cell_len(text)) for text in texts]
    pairs = zip(texts, blanks, strict=True)
    return [blank + text if right else text + blank for text, blank in pairs]
