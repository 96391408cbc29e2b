"""elmo convert FROM TO: official files become a model folder, or the other way round."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from tyro.conf import Positional, arg

from elmo.cli import arguments
from elmo.errors import UserError


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """Turn official ELMo files into a model folder, or a model folder into official files.

    elmo convert elmo_small models/small

    elmo convert runs/news elmo_news --to official
    """

    source: Annotated[Path, Positional, arg(metavar="FROM")]
    """A folder with options.json and one .hdf5 file, or a model folder."""
    target: Annotated[Path, Positional, arg(metavar="TO")]
    """The folder to write; it must not exist."""
    to: Literal["elmo", "official"] = "elmo"
    """elmo: a model folder; official: options.json and weights.hdf5."""


def parse(given: Sequence[str]) -> Arguments:
    """Read the flags."""
    return arguments.parse(Arguments, "convert", given)


def run(given: Arguments) -> int:
    """Convert, and say what became of it."""
    from elmo.interop.models import is_official, official_files, open_model, save_model
    from elmo.interop.official import save_official

    loaded = open_model(given.source)
    if is_official(given.source) == (given.to == "official"):
        other = "official" if given.to == "elmo" else "elmo"
        raise UserError(f"{given.source}: is of this kind already; did you mean --to {other}?")
    if given.to == "elmo":
        save_model(loaded, given.target, official_files(given.source).weights)
    else:
        save_official(loaded, given.target)
    print(f"{given.target}: the model of {given.source}, number for number")
    if given.to == "official" and loaded.model.config.softmax.loss != "none":
        print(
            "left behind, as official files have no place for it: the softmax (so keep "
            f"{given.source} to score, predict or generate) and how often words were counted"
        )
    return 0
