"""elmo classify train|evaluate|predict …: classifiers of texts."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import Any

from elmo.config import nearest
from elmo.errors import UserError

COMMANDS = {
    "train": "learn from labelled texts, on top of a biLM",
    "evaluate": "measure a classifier on labelled texts",
    "predict": "labels of texts, with probabilities",
}


def parse(given: Sequence[str]) -> Callable[[], int]:
    """Read what to do and the flags of it; gives what does it."""
    name, *rest = given or ["--help"]
    if name in ("-h", "--help"):
        return _show_overview
    if name not in COMMANDS:
        raise UserError(
            f"unknown command 'classify {name}'{nearest(name, COMMANDS)}; see elmo classify --help"
        )
    command: Any = importlib.import_module(f"elmo.cli.classify_{name}")
    arguments = command.parse(rest)
    return lambda: command.run(arguments)


def run(given: Callable[[], int]) -> int:
    """Do it."""
    return given()


def _show_overview() -> int:
    lines = [f"  {name:<10} {what}" for name, what in COMMANDS.items()]
    print("\n".join(["usage: elmo classify COMMAND …", "", *lines, ""]))
    print("elmo classify COMMAND --help tells more.")
    return 0
