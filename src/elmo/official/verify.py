"""Does a model compute what somebody stored? The largest difference per layer and direction."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
import torch
from numpy.typing import NDArray

from elmo.bilm.model import BiLM, BiLMState, token_vectors
from elmo.config import from_json
from elmo.errors import UserError
from elmo.files import read_json, read_text
from elmo.official.format import read_token_vectors, read_words
from elmo.official.hdf5 import opened, read_numbers, require_readable, shape_and_type
from elmo.text.batching import pack_texts

LARGEST_FILE = 1 << 30
Array = NDArray[np.float32]
Slot = list[list[str]]  # texts, as words, that are read one after the other
Start = Literal["carry", "zero"]
Direction = Literal["forward", "backward", "both"]


@dataclass(frozen=True)
class Difference:
    """How far one layer of one direction is from what was stored."""

    layer: int  # 0 is the token layer
    direction: Direction
    words: int
    largest: float

    def within(self, tolerance: float) -> bool:
        """Whether it is small enough; NaN never is."""
        return self.largest <= tolerance


class _Tally:
    def __init__(self) -> None:
        self._differences: dict[tuple[int, Direction], Difference] = {}

    def add(self, layer: int, direction: Direction, ours: Array, theirs: Array) -> None:
        before = self._differences.get((layer, direction), Difference(layer, direction, 0, 0.0))
        gap = np.abs(ours.astype(np.float64) - theirs)
        # NumPy's maximum, not Python's: it keeps NaN.
        largest = float(np.maximum(gap.max(initial=0.0), before.largest))
        words = before.words + len(ours)
        self._differences[layer, direction] = Difference(layer, direction, words, largest)

    def differences(self) -> tuple[Difference, ...]:
        """All layers, from the token layer up, forward before backward."""
        order = sorted(self._differences, key=lambda key: (key[0], key[1] != "forward"))
        return tuple(self._differences[key] for key in order)


@torch.no_grad()
def verify_activations(
    model: BiLM, slots: Sequence[Slot], expected: Sequence[Path], start: Start = "carry"
) -> tuple[Difference, ...]:
    """Read the slots side by side, text by text, and compare with one file per slot.

    Args:
        model: The network.
        slots: Texts as words, the same number in each slot.
        expected: One HDF5 file per slot with one array per text, named 0, 1, …: the top layer, (2,
            words, width), or all layers, (1 + layers, words, 2 * width).
        start: carry: each text starts in the state its slot's previous text ended in, as in the
            original programs; zero: each starts from zeros.
    """
    if len(slots) != len(expected):
        raise UserError(
            f"expected one file of activations for each of the {len(slots)} slots of sentences, "
            f"got {len(expected)}"
        )
    tally = _Tally()
    with ExitStack() as stack:
        stored = [stack.enter_context(opened(path)) for path in expected]
        for path, arrays, slot in zip(expected, stored, slots, strict=True):
            wanted = {str(number) for number in range(len(slot))}
            names = set(arrays) - {"sentence_to_index"}  # written by AllenNLP next to the arrays
            if names != wanted:
                raise UserError(
                    f"{path}: expected one array for each of {len(slot):,} texts, named 0 to "
                    f"{len(slot) - 1}; missing or left over: "
                    f"{', '.join(sorted(names ^ wanted)[:5])}"
                )
        state: BiLMState | None = None
        for number, texts in enumerate(zip(*slots, strict=True)):
            batch = pack_texts(texts, model.vocabulary, spelled=model.spelled, read_end=True)
            outputs = model.layers(batch.to(model.device), state if start == "carry" else None)
            state = outputs.state
            # (1 + layers, slots, words, 2 * width)
            layers = outputs.padded()[0].float().cpu().numpy()
            for idx, (path, arrays) in enumerate(zip(expected, stored, strict=True)):
                ours = layers[:, idx, : len(texts[idx])]
                _compare(tally, ours, path, str(number), arrays[str(number)])
    return tally.differences()


def verify_tokens(model: BiLM, vocabulary: Path, expected: Path) -> tuple[Difference, ...]:
    """Compare the token layer with stored vectors of a vocabulary's words."""
    words = read_words(vocabulary)
    theirs = read_token_vectors(expected, len(words), model.config.width)
    tally = _Tally()
    first = 0
    for ours in token_vectors(model, words):
        tally.add(0, "both", ours, theirs[first : first + len(ours)])
        first += len(ours)
    return tally.differences()


def read_slots(path: Path) -> list[Slot]:
    """Read sentences, each a string of words separated by spaces.

    JSON holds a list of sentences or, for several slots, a list of such lists of equal length,
    whose sentences may be lists of words; any other file holds one sentence per line.
    """
    if path.suffix == ".json":
        content: Any = read_json(path, LARGEST_FILE)
    else:
        content = read_text(path, LARGEST_FILE).removesuffix("\n").split("\n")
    text_type: Any = tuple[str, ...] if _first(_first(_first(content))) is not None else str
    slots_type: Any = tuple[tuple[text_type, ...], ...]
    one_slot = isinstance(_first(content), str)
    texts = from_json(slots_type, [content] if one_slot else content, str(path))
    slots = [[text.split() if text_type is str else text for text in slot] for slot in texts]
    if not slots or not slots[0] or any(not words for slot in slots for words in slot):
        raise UserError(f"{path}: expected sentences with words, but there is none or an empty one")
    if len({len(slot) for slot in slots}) > 1:
        raise UserError(f"{path}: expected as many sentences in each slot; they differ")
    return slots


def _first(content: Any) -> Any:
    return cast("list[Any]", content)[0] if isinstance(content, list) and content else None


def _compare(tally: _Tally, ours: Array, path: Path, name: str, dataset: Any) -> None:
    """Compare all layers of a text, (1 + layers, words, 2 * width), or the top one alone."""
    layers, words, both = ours.shape
    width = both // 2
    shape, dtype = shape_and_type(dataset)
    if shape not in ((2, words, width), ours.shape) or dtype not in ("float32", "float64"):
        raise UserError(
            f"{path}: {name!r} is {shape} of {dtype}, expected {(2, words, width)} or {ours.shape} "
            "of float32; are these the sentences and the model it was made with?"
        )
    require_readable(path, {name: dataset})
    theirs = read_numbers(dataset)
    if shape == (2, words, width):
        theirs = np.concatenate(tuple(theirs), axis=1)[None]
        ours = ours[-1:]
    for layer, (mine, other) in enumerate(zip(ours, theirs, strict=True), layers - len(ours)):
        tally.add(layer, "forward", mine[:, :width], other[:, :width])
        tally.add(layer, "backward", mine[:, width:], other[:, width:])
