"""Which columns are meant: by name, by number, or the one that must hold the text."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from elmo.errors import UserError

TEXT_COLUMN = "text"


def is_number(column: str) -> bool:
    """Whether a column is asked for by its position."""
    return column.isascii() and column.isdigit()


def find_columns(
    where: str, columns: Sequence[str] | None, first: Sequence[str], *, named: bool = True
) -> list[int]:
    """Give the positions of the columns asked for; None asks for the text column.

    The first row holds the names, or if the columns are not named, the first values.
    """
    if columns is None:
        return [_text_position(where, first, named)]
    return [_position(where, column, first, named) for column in columns]


def _text_position(where: str, first: Sequence[str], named: bool) -> int:
    if named and TEXT_COLUMN in first:
        return first.index(TEXT_COLUMN)
    if len(first) == 1:
        return 0
    raise UserError(
        f"{where}: expected a column named {TEXT_COLUMN!r} or a single column, but the first row "
        f"is {listing(first)}; say which column holds the text with --column, by name or number"
    )


def _position(where: str, column: str, first: Sequence[str], named: bool) -> int:
    if named and column in first:
        return first.index(column)
    if is_number(column) and int(column) < len(first):
        return int(column)
    near = difflib.get_close_matches(column, first, n=1) if named else []
    hint = f"did you mean {near[0]!r}?" if near else "name one of these, or give its number"
    raise UserError(f"{where}: no column {column!r} among {listing(first)}; {hint}")


def listing(names: Sequence[str]) -> str:
    """The columns of a first row with their numbers, for a message."""
    shortened = (name if len(name) <= 40 else name[:37] + "..." for name in names)
    return ", ".join(f"{number}: {name!r}" for number, name in enumerate(shortened))
