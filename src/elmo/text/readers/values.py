"""Typed values, as JSON and Parquet have them, to strings."""

from __future__ import annotations

from elmo.errors import UserError
from elmo.text.readers.options import ReadOptions


def as_text(value: object, where: str, options: ReadOptions) -> str:
    """Take strings, and whole numbers since they label classes; refuse everything else."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str):
        raise UserError(f"{where}: expected a string, but there is {value!r:.60}; mend the file")
    return value if value.isascii() else _whole_characters(value, where, options)


def _whole_characters(value: str, where: str, options: ReadOptions) -> str:
    # JSON can spell half a surrogate pair, which no UTF-8 file could hold later on.
    try:
        value.encode()
    except UnicodeEncodeError:
        if options.errors == "replace":
            return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        raise UserError(
            f"{where}: there is half a surrogate pair, which is not text; "
            "mend the file, or use --errors replace"
        ) from None
    return value
