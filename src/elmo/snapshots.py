"""A training at a step, in a folder: whole or not there; the newest sound one is used."""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from elmo.errors import UserError
from elmo.files import folder_written_whole, remove_whole, sha256

T = TypeVar("T")

log = logging.getLogger(__name__)


@contextmanager
def snapshot_written(folder: Path, step: int, kept: int) -> Generator[Path]:
    """Give a folder to write to; when all went well, only the newest `kept` ones stay."""
    with folder_written_whole(folder / f"step-{step:09d}") as beside:
        yield beside
    for old in sorted(folder.glob("step-*"))[:-kept]:
        remove_whole(old)


def next_step(folder: Path) -> int:
    """A step after all that are there, damaged ones too."""
    names = (path.name.removeprefix("step-") for path in folder.glob("step-*"))
    return 1 + max((int(name) for name in names if name.isdecimal()), default=0)


def newest_snapshot(folder: Path, load: Callable[[Path], T]) -> T | None:
    """The newest that can be loaded; damaged ones are named and passed over."""
    for path in sorted(folder.glob("step-*"), reverse=True):
        try:
            return load(path)
        except UserError as error:
            log.warning("passing over a damaged checkpoint: %s", error)
    return None


def check_whole(path: Path, checksum: str) -> None:
    """Make sure that a file is as it was written."""
    if not path.is_file() or sha256(path) != checksum:
        raise UserError(f"{path}: does not have the checksum it was written with")
