"""How files are read and texts are cut into batches; apart, to be shown without torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from elmo.config import Count, Range


@dataclass(frozen=True, kw_only=True)
class Batching:
    """How text is cut into batches."""

    batching: Literal["documents", "stream"] = "documents"
    """documents: texts of similar length together; stream: running text, the state carried."""
    batch_tokens: Count = 4096
    """Tokens per batch, padding included; about 1024 for a text of less than a million words."""
    window: Annotated[int, Range(2)] = 256
    """Longest chunk read in one step; longer texts continue in the next, with the state carried."""


@dataclass(frozen=True, kw_only=True)
class ReadOptions:
    """How the text is found inside the files."""

    column: str | None = None
    """Column that holds the text in csv, tsv, jsonl and parquet files: a name, or a number counted
    from 0. Default: the column named "text", or else the only column."""

    header: Literal["auto", "yes", "no"] = "auto"
    """Whether the first row of csv and tsv files names the columns. "auto": it does when a column
    is asked for by name, or when one of its fields is "text"."""

    delimiter: Literal["auto", ",", ";", "tab", "|"] = "auto"
    """What separates the fields of csv files. "auto": what cuts the first lines into equally many
    fields; anything but a comma is said."""

    on_bad_rows: Literal["stop", "skip"] = "stop"
    """What to do with rows of csv and tsv files that have more fields than the first row, or lack
    the one asked for: stop, or leave them out and say how many there were."""

    quotes: bool = True
    """Whether double quotes enclose fields of csv and tsv files; if not, they are ordinary text."""

    errors: Literal["strict", "replace"] = "strict"
    """What to do with bytes that are not UTF-8: stop, or put U+FFFD in their place."""

    ag_news_text: Literal["description", "title", "both"] = "description"
    """Which part of an AG News row is the document."""

    separator: str = " "
    """What stands between title and description if both are read."""
