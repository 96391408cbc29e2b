"""How to read a file: the settings that all readers share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


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
