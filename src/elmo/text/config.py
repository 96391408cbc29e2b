"""How to read a file: the settings that all readers share."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

# Settings of the way through a corpus; apart, so that they can be shown without torch.


@dataclass(frozen=True, kw_only=True)
class Batching:
    """How text is cut into batches."""

    batching: Literal["documents", "stream"] = "documents"
    """documents: texts of like length together; stream: running text in windows, state carried."""
    batch_tokens: int = 4096
    """Tokens a batch, padding included; 1024 or so for a text of less than a million words."""
    window: int = 256
    """Longest stretch read in one step; longer texts go on in the next, with the state carried."""

    def problems(self) -> Iterable[str]:
        """Yield what is wrong with these settings."""
        if self.window < 2:
            yield f"window: at least 2 tokens are needed, got {self.window}"
        if self.batch_tokens < self.window:
            yield (
                f"batch_tokens ({self.batch_tokens}) must be at least window ({self.window}): "
                "a batch holds at least one text"
            )


@dataclass(frozen=True, kw_only=True)
class ReadOptions:
    """How the text is found inside the files."""

    column: str | None = None
    """Column that holds the text in csv, tsv, jsonl and parquet files: a name, or a number counted
    from 0. Default: the column named "text", or else the only column."""

    header: Literal["auto", "yes", "no"] = "auto"
    """Whether the first row of csv and tsv files names the columns. "auto": it does when a column
    is asked for by name, or when one of its fields is "text"."""

    quotes: bool = True
    """Whether double quotes enclose fields of csv and tsv files; if not, they are ordinary text."""

    errors: Literal["strict", "replace"] = "strict"
    """What to do with bytes that are not UTF-8: stop, or put U+FFFD in their place."""

    ag_news_text: Literal["description", "title", "both"] = "description"
    """Which part of an AG News row is the document."""

    separator: str = " "
    """What stands between title and description if both are read."""
