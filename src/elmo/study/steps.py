"""Finished steps of a study, a file each: what is there for the same inputs is not done again."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from elmo.config import Json, from_json, to_json
from elmo.errors import UserError
from elmo.files import read_json, write_json

T = TypeVar("T")


@dataclass(frozen=True)
class Steps:
    """A folder of finished steps."""

    folder: Path

    def known(self, name: str, inputs: Json, kind: type[T]) -> T | None:
        """What the step gave for just these inputs, or none if it must be done."""
        path = self.path(name)
        if not path.is_file():
            return None
        try:
            found = read_json(path)
            if found["inputs"] != inputs_key(inputs):
                return None
            return from_json(kind, found["result"], path.name)
        except (UserError, KeyError, TypeError):
            # A file of another version, or damaged: the step is done again.
            return None

    def keep(self, name: str, inputs: Json, result: object) -> None:
        """Write what the step gave."""
        kept = {"name": name, "inputs": inputs_key(inputs), "result": to_json(result)}
        write_json(self.path(name), kept)

    def path(self, name: str) -> Path:
        """Where a step is kept."""
        return self.folder / f"{name}.json"


def inputs_key(inputs: Json) -> str:
    """A hash of everything that a step's result depends on."""
    return hashlib.sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest()
