"""The two errors a user may see: both end a command with one clear line and exit code 2."""

from __future__ import annotations

from collections.abc import Sequence


class UserError(ValueError):
    """Something the user can fix: says what was expected, what came and what to do."""


class ConfigError(UserError):
    """Every problem of a configuration, reported at once."""

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = tuple(problems)
        lines = "\n".join(f"  - {problem}" for problem in self.problems)
        count = "1 problem" if len(self.problems) == 1 else f"{len(self.problems)} problems"
        super().__init__(f"{count} in the settings:\n{lines}")
