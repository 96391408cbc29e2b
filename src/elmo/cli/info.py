"""elmo info MODEL: what is in a model folder."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from elmo.cli import arguments
from elmo.cli.arguments import Positional


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """Show what is in a model folder: sizes, settings, vocabulary, how it was made."""

    model: Positional[Path]
    """A model folder."""
    json: bool = False
    """Print JSON."""


def parse(given: Sequence[str]) -> Arguments:
    """Read the flags."""
    return arguments.parse(Arguments, "info", given)


def run(given: Arguments) -> int:
    """Print what the folder holds."""
    from elmo.checkpoint import CARD, describe_model

    description = describe_model(given.model)
    if given.json:
        print(json.dumps(description, ensure_ascii=False, indent=2))
        return 0
    return 0
