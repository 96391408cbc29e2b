"""Vectors on their way to a file: written in parts, so that a job that was stopped can go on."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from elmo.bilm.model import BiLM, BiLMState
from elmo.checkpoint import load_header, load_tensor, load_tensors, save_tensors
from elmo.config import Json
from elmo.contextual.encoder import Vectors
from elmo.contextual.npz import Strings
from elmo.contextual.start_state import state_of_tensors, state_tensors
from elmo.errors import UserError
from elmo.files import read_json, write_json

SETTINGS = "settings.json"
PARTS_FORMAT = 2
VECTORS, LENGTHS, TEXTS, WORDS = "vectors", "lengths", "texts", "words"
"""Tensors of a part: strings are bytes, with one more tensor for their sizes."""


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
        while self._file(number).exists():
            number += 1
        return number

    def add(self, texts: PartTexts, vectors: Vectors, state: BiLMState | None) -> None:
        """Write the next part, and the state in which the model was left."""
        lists = [json.dumps(words, ensure_ascii=False) for words in texts.words]
        arrays = {
            VECTORS: vectors,
            LENGTHS: texts.lengths,
            **_string_arrays(TEXTS, texts.texts),
            **_string_arrays(WORDS, lists),
        }
        kept = {} if state is None else state_tensors(state)
        tensors = {name: torch.from_numpy(one) for name, one in arrays.items()}
        save_tensors(self._file(len(self)), {**tensors, **kept})

    def lengths(self) -> NDArray[np.int64]:
        """How many words each text has, of all parts."""
        return np.concatenate([np.zeros(0, np.int64), *self.arrays(LENGTHS)])

    def strings(self, name: str) -> Strings:
        """The texts, or the words of each as a JSON list, of all parts; read when asked for."""
        return Strings(np.concatenate(list(self.arrays(_sizes(name)))), self.arrays(name))

    def texts(self) -> Iterator[PartTexts]:
        """The texts of each part."""
        for number in range(len(self)):
            texts, lists = (self._strings(number, name).decoded() for name in (TEXTS, WORDS))
            yield PartTexts(tuple(texts), tuple(tuple(json.loads(words)) for words in lists))

    def arrays(self, name: str) -> Iterator[NDArray[Any]]:
        """One of the tensors of each part."""
        for number in range(len(self)):
            yield load_tensor(self._file(number), name).numpy()

    def shape(self) -> tuple[int, ...]:
        """The shape that the vectors of all parts have end to end."""
        shapes = [load_header(self._file(number))[VECTORS].shape for number in range(len(self))]
        return (sum(shape[0] for shape in shapes), *shapes[0][1:])

    def last_state(self, model: BiLM) -> BiLMState | None:
        """The state in which the model was left, if it was kept."""
        if not len(self):
            return None
        path = self._file(len(self) - 1)
        kept = {name: one for name, one in load_tensors(path).items() if name not in OF_TEXTS}
        return state_of_tensors(kept, model, path) if kept else None

    def _strings(self, number: int, name: str) -> Strings:
        sizes, data = (load_tensor(self._file(number), one).numpy() for one in (_sizes(name), name))
        return Strings(sizes, [data])

    def _file(self, number: int) -> Path:
        return self.path / f"{number:06d}.safetensors"


def _string_arrays(name: str, strings: Sequence[str]) -> dict[str, NDArray[Any]]:
    packed = Strings.of(strings)
    return {name: np.concatenate(list(packed.pieces)), _sizes(name): packed.sizes}


def _sizes(name: str) -> str:
    return f"{name}_sizes"


OF_TEXTS = (VECTORS, LENGTHS, TEXTS, WORDS, _sizes(TEXTS), _sizes(WORDS))
"""All else in a part is the state."""


def end_to_end(found: Sequence[Vectors], *, pooled: bool) -> Vectors:
    """The vectors of texts as rows, (rows, dim) or, of all layers, (rows, layers, dim)."""
    if pooled:
        return np.stack(found)
    words_first = [one.swapaxes(0, 1) if one.ndim == 3 else one for one in found]
    return np.concatenate(words_first)
