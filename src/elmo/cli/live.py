"""A long job on standard error: a bar in a terminal, plain lines elsewhere."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from rich.console import Console
from rich.live import Live
from rich.progress import BarColumn, Progress, TextColumn

SECONDS_BETWEEN_LINES = 10.0


class Display:
    """What a person sees of a long job, live in a terminal; standard output stays a script's."""

    def __init__(self, *, quiet: bool = False) -> None:
        self._console = Console(stderr=True, quiet=quiet)
        self._live: Progress | Live | None = None

    @property
    def is_terminal(self) -> bool:
        """Whether somebody sees what is live."""
        return self._console.is_terminal

    def __enter__(self) -> Self:
        if self._live is not None and self.is_terminal:
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._live is not None and self.is_terminal:
            self._live.stop()

    def line(self, text: str) -> None:
        """Print a line, above what is live if anything is."""
        self._console.print(text, highlight=False, soft_wrap=True, markup=False)


class LiveDisplay(Display):
    """A bar."""

    def __init__(self, description: str, *, quiet: bool = False) -> None:
        super().__init__(quiet=quiet)
        columns = (TextColumn("{task.description}"), BarColumn())
        self._bar = Progress(*columns, console=self._console, disable=not self.is_terminal)
        self._live = self._bar
        self._task = self._bar.add_task(description, total=None)

    def update(self, text: str, completed: float | None = None, total: float | None = None) -> None:
        """Move the bar."""
        self._bar.update(self._task, description=text, completed=completed, total=total)


def clock(seconds: float) -> str:
    """Hours, minutes and seconds."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}"
