"""Standard input kept in a temporary file, so that it can be read more than once."""

from __future__ import annotations

import atexit
import hashlib
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from elmo.errors import UserError

_PIECE = 1 << 20


@dataclass(frozen=True, kw_only=True)
class Spooled:
    """Where the bytes lie until the program ends, and what identifies them."""

    path: Path
    sha256: str


def spool_standard_input() -> Spooled:
    """Copy all of standard input to a file that is removed when the program ends."""
    digest = hashlib.sha256()
    with tempfile.NamedTemporaryFile(prefix="elmo-stdin-", suffix=".txt", delete=False) as file:
        path = Path(file.name)
        atexit.register(path.unlink, missing_ok=True)
        while piece := sys.stdin.buffer.read(_PIECE):
            digest.update(piece)
            file.write(piece)
        if not file.tell():
            raise UserError(
                "expected text on standard input, one document a line, but it is empty; "
                "check the command before the pipe"
            )
    return Spooled(path=path, sha256=digest.hexdigest())
