"""Vectors on their way to a file: written in parts, so that a job that was stopped can go on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from elmo.bilm.model import BiLM, BiLMState
from elmo.checkpoint import load_header, load_tensors, save_tensors
from elmo.config import Json, from_json
from elmo.contextual.encoder import Vectors
from elmo.contextual.start_state import state_of_tensors, state_tensors
from elmo.errors import UserError
from elmo.files import read_json, write_json

SETTINGS = "settings.json"
VECTORS = "vectors"
LARGEST_TEXTS = 1 << 32


@dataclass(frozen=True)
class PartTexts:
    """Some texts, in order."""

    texts: tuple[str, ...]
    words: tuple[tuple[str, ...], ...]

    @property
    def lengths(self) -> NDArray[np.int64]:
        """How many words each text has."""
        return np.array([len(words) for words in self.words], np.int64)


@dataclass(frozen=True)
class PartsFolder:
    """The parts written so far, in a folder beside the file they are to become.

    Of each part, vectors have a row a text (pooled) or a word (tokens).
    """

    path: Path

    def open(self, settings: Json) -> None:
        """Start, or make sure that the parts here belong to the same job."""
        recorded = self.path / SETTINGS
        if not recorded.exists():
            write_json(recorded, settings)
            return
        found: Json = read_json(recorded)
        names = sorted(found.keys() | settings.keys())
        other = [name for name in names if found.get(name) != settings.get(name)]
        if other:
            raise UserError(
                f"{self.path} holds parts of another job, of other {', '.join(other)}; give the "
                "command of that one to finish it, or delete the folder"
            )

    def __len__(self) -> int:
        number = 0
        while self._vectors(number).exists():
            number += 1
        return number

    def add(self, texts: PartTexts, vectors: Vectors, state: BiLMState | None) -> None:
        """Write the next part, and the state in which the model was left."""
        number = len(self)
        kept = {} if state is None else state_tensors(state)
        write_json(self._texts(number), vars(texts))
        # The last file written is the one that tells that the part is there.
        save_tensors(self._vectors(number), {VECTORS: torch.from_numpy(vectors), **kept})

    def texts(self) -> Iterator[PartTexts]:
        """The texts of each part."""
        for number in range(len(self)):
            path = self._texts(number)
            yield from_json(PartTexts, read_json(path, LARGEST_TEXTS), str(path))

    def vectors(self) -> Iterator[Vectors]:
        """The vectors of each part."""
        for number in range(len(self)):
            yield load_tensors(self._vectors(number))[VECTORS].numpy()

    def shape(self) -> tuple[int, ...]:
        """The shape that the vectors of all parts have end to end."""
        shapes = [load_header(self._vectors(number))[VECTORS].shape for number in range(len(self))]
        return (sum(shape[0] for shape in shapes), *shapes[0][1:])

    def last_state(self, model: BiLM) -> BiLMState | None:
        """The state in which the model was left, if it was kept."""
        if not len(self):
            return None
        path = self._vectors(len(self) - 1)
        kept = {name: tensor for name, tensor in load_tensors(path).items() if name != VECTORS}
        return state_of_tensors(kept, model, path) if kept else None

    def _texts(self, number: int) -> Path:
        return self.path / f"{number:06d}.json"

    def _vectors(self, number: int) -> Path:
        return self.path / f"{number:06d}.safetensors"


def end_to_end(found: Sequence[Vectors], *, pooled: bool) -> Vectors:
    """The vectors of texts as rows, (rows, dim) or, of all layers, (rows, layers, dim)."""
    if pooled:
        return np.stack(found)
    words_first = [one.swapaxes(0, 1) if one.ndim == 3 else one for one in found]
    return np.concatenate(words_first)
