"""The two errors a user may see: both end a command with one clear line and exit code 2."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from types import ModuleType


class UserError(ValueError):
    """Something the user can fix: says what was expected, what came and what to do."""


class ConfigError(UserError):
    """Every problem of a configuration, reported at once."""

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = tuple(problems)
        lines = "\n".join(f"  - {problem}" for problem in self.problems)
        count = "1 problem" if len(self.problems) == 1 else f"{len(self.problems)} problems"
        super().__init__(f"{count} in the settings:\n{lines}")


def require_extra(module: str, extra: str) -> ModuleType:
    """Import a module that belongs to an optional extra, or say how to install it."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name != module.partition(".")[0]:
            raise
        raise UserError(
            f"this needs the Python package {error.name!r}, which is not installed; "
            f"run: pip install 'elmo-embeddings[{extra}]'"
        ) from None
