"""How commands print: tables for people, JSON for scripts."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text


def print_json(content: Mapping[str, object]) -> None:
    """Print one object on one line."""
    print(json.dumps(content, ensure_ascii=False))


def print_table(rows: Sequence[Sequence[str]], columns: Sequence[str] = ()) -> None:
    """Print rows; under names of columns, all but the first column go to the right."""
    table = Table(box=None, pad_edge=False, show_header=bool(columns))
    for place, name in enumerate(columns):
        table.add_column(Text(name), justify="right" if place else "left")
    for row in rows:
        # Not strings: rich would take words in square brackets for markup.
        table.add_row(*(Text(cell) for cell in row))
    Console(highlight=False, soft_wrap=True).print(table)
