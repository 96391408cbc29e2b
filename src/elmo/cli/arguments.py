"""Command-line arguments from dataclasses: the fields are the flags, their docs are the help."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, TypeVar, cast

import tyro

Arguments = TypeVar("Arguments")
Positional = tyro.conf.Positional


def parse(
    cls: type[Arguments], command: str, given: Sequence[str], default: Arguments | None = None
) -> Arguments:
    """Read flags into a dataclass; nested settings give flat flags, a typo gets a suggestion."""
    flat = cast("Any", Annotated[cls, tyro.conf.OmitArgPrefixes])
    options: dict[str, Any] = {} if default is None else {"default": default}
    return tyro.cli(flat, prog=f"elmo {command}", args=given, **options)
