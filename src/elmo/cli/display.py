"""How commands print: progress on standard error, tables, sentences or JSON on standard output."""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Self
from unicodedata import bidirectional

from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn
from rich.text import Text

if TYPE_CHECKING:
    from elmo.embed.embedder import Progress as EmbeddingReport

SECONDS_BETWEEN_LINES = 10.0
# Control characters, and those that turn the direction of what follows on the line.
CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
WIDEST_WORD = 30
GAP = "  "


def safe(text: str) -> str:
    r"""Text of strangers for a terminal: control characters become escapes such as \x1b."""
    return CONTROL.sub(lambda match: repr(match[0])[1:-1], text)


def say(line: str) -> None:
    """Print a line on standard output; names and labels of strangers cannot break it."""
    print(safe(line))


def print_json(content: Mapping[str, object]) -> None:
    """Print one object on one line."""
    # Else the escapes of `main` for signs that the locale lacks would make it no JSON.
    is_unicode = "utf" in str(getattr(sys.stdout, "encoding", "utf")).lower()
    text = json.dumps(content, ensure_ascii=not is_unicode)
    # JSON escapes what is below U+0020; U+009B, for one, starts a terminal sequence, too.
    print(CONTROL.sub(lambda match: f"\\u{ord(match[0]):04x}", text), flush=True)


def print_table(rows: Sequence[Sequence[str]], columns: Sequence[str] = ()) -> None:
    """Print rows as wide as they are; with column names, all but the first align to the right."""
    lines = [[safe(cell) for cell in row] for row in ([columns, *rows] if columns else rows)]
    count = max(map(len, lines))
    cells = [[*line, *[""] * (count - len(line))] for line in lines]
    padded = [
        _aligned(column, right=bool(columns) and index > 0)
        for index, column in enumerate(zip(*cells, strict=True))
    ]
    for line in zip(*padded, strict=True):
        print(GAP.join(line).rstrip())


def clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}"


class ProgressDisplay:
    """A bar on standard error, lines above it; without a terminal a line every ten seconds."""

    def __init__(self, description: str = "", *, quiet: bool = False) -> None:
        self._console = Console(stderr=True, quiet=quiet)
        self.is_terminal = self._console.is_terminal and not quiet
        columns = (TextColumn("{task.description}", markup=False), BarColumn())
        self._bar = Progress(*columns, console=self._console, disable=not self.is_terminal)
        self._task = self._bar.add_task(description, total=None)
        self._last = time.monotonic()

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.is_terminal:  # else it would print an empty line
            self._bar.stop()

    def line(self, text: str) -> None:
        self._console.print(safe(text), highlight=False, soft_wrap=True, markup=False)

    def show(
        self,
        text: str,
        completed: float | None = None,
        total: float | None = None,
        *,
        now: bool = False,
    ) -> None:
        """Move the bar; `now` prints a line at once where there is no bar."""
        self._bar.update(self._task, description=safe(text), completed=completed, total=total)
        due = now or time.monotonic() - self._last >= SECONDS_BETWEEN_LINES
        if not self.is_terminal and due:
            self.line(text)
            self._last = time.monotonic()


def embedding_progress(
    display: ProgressDisplay, what: str = "texts"
) -> Callable[[EmbeddingReport], None]:
    def show(report: EmbeddingReport) -> None:
        of = "" if report.total is None else f" of {report.total:,}"
        left = "" if report.seconds_left is None else f"  {clock(report.seconds_left)} left"
        speed = f"{report.tokens_per_second:,.0f} words/s"
        display.show(f"{report.texts:,}{of} {what}  {speed}{left}", report.texts, report.total)

    return show


def print_concordance(
    lines: Sequence[tuple[str, Sequence[str], int]], console: Console | None = None
) -> None:
    """Print a label and a sentence per line, the word at the given index below the one above.

    The word is bold in a terminal and in «» elsewhere; sentences are cut to the terminal's width.
    What comes first in a right-to-left sentence is on the right of the word.
    """
    console = console or Console()
    sentences = [
        ([shortened(safe(word), WIDEST_WORD) for word in words], position)
        for _, words, position in lines
    ]
    labels = _aligned([label for label, _, _ in lines])
    mark = "{}" if console.is_terminal else "«{}»"
    words = _aligned([mark.format(sentence[position]) for sentence, position in sentences])
    room = console.width - cell_len(labels[0] + words[0]) - 3 * len(GAP)
    before = [
        fitting(sentence[:position][::-1], room // 2)[::-1] for sentence, position in sentences
    ]
    left = _aligned([" ".join(part) for part in before], right=True)
    rest = room - cell_len(left[0])
    right = [" ".join(fitting(sentence[position + 1 :], rest)) for sentence, position in sentences]
    if any(bidirectional(sign) in ("R", "AL") for sign in "".join(lines[0][1])):
        # Each column is isolated, or the terminal would reorder the line as a whole.
        columns = [
            [f"\u2067{text.strip()}\u2069" for text in part] for part in (right, words, left)
        ]
        left, words = _aligned(columns[0], right=True), _aligned(columns[1])
        right = columns[2]
    for label, start, word, end in zip(labels, left, words, right, strict=True):
        text = Text.assemble(label, GAP, start, GAP, (word, "bold"), GAP, end)
        text.rstrip()
        console.print(text, soft_wrap=True, highlight=False)


def fitting(words: Iterable[str], width: int) -> list[str]:
    """As many of the words as fit into the width, and "…" if not all do."""
    shown: list[str] = []
    for word in words:
        if cell_len(" ".join((*shown, word))) > width:
            while shown and cell_len(" ".join((*shown, "…"))) > width:
                shown.pop()
            return [*shown, "…"]
        shown.append(word)
    return shown


def shortened(text: str, width: int) -> str:
    """The text, or as much of it as fits into the width with "…" after it."""
    if cell_len(text) <= width:
        return text
    return set_cell_size(text, width - 1).rstrip() + "…"


def _aligned(texts: Sequence[str], *, right: bool = False) -> list[str]:
    """Pad all to the width of the widest; some characters take two cells."""
    widest = max(map(cell_len, texts))
    padding = [" " * (widest - cell_len(text)) for text in texts]
    pairs = zip(texts, padding, strict=True)
    return [blank + text if right else text + blank for text, blank in pairs]
