"""Whether a model computes what somebody stored: the largest difference a layer and direction."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from elmo.bilm.model import BiLM, BiLMState, LayerActivations
from elmo.bilm.token_vectors import token_vectors
from elmo.errors import UserError
from elmo.interop.expected import Array, Stored, read_expected, require_numbers, stored_arrays
from elmo.interop.official_vocabulary import read_words
from elmo.interop.slots import Slot
from elmo.interop.stored_tokens import read_token_vectors
from elmo.text.batches import whole_batch

Start = Literal["carry", "zero"]
Direction = Literal["forward", "backward", "both"]
_ORDER: tuple[Direction, ...] = ("forward", "backward", "both")


@dataclass(frozen=True)
class Difference:
    """How far one layer of one direction is from what was stored."""

    layer: int
    """0 is the token layer."""
    direction: Direction
    words: int
    largest: float

    def within(self, tolerance: float) -> bool:
        """Whether it is small enough; a difference that is no number never is."""
        return self.largest <= tolerance


class _Tally:
    """The largest difference so far, layer by layer."""

    def __init__(self) -> None:
        self.found: dict[tuple[int, Direction], Difference] = {}

    def add(self, layer: int, direction: Direction, ours: Array, theirs: Array) -> None:
        """Compare (words, width) of a text."""
        before = self.found.get((layer, direction), Difference(layer, direction, 0, 0.0))
        gap = np.abs(ours.astype(np.float64) - theirs)
        # Of NumPy's maximum, not Python's: it keeps what is no number.
        largest = float(np.maximum(gap.max(initial=0.0), before.largest))
        words = before.words + len(ours)
        self.found[layer, direction] = Difference(layer, direction, words, largest)

    def differences(self) -> tuple[Difference, ...]:
        """All layers, from the token layer up."""
        return tuple(self.found[key] for key in sorted(self.found, key=_layer_and_place))


def verify_activations(
    model: BiLM, slots: Sequence[Slot], expected: Sequence[Path], start: Start = "carry"
) -> tuple[Difference, ...]:
    """Read the slots side by side, text by text, and compare with one file for each.

    With `carry` each text starts in the state its slot's last text ended in, as the original
    programs do; with `zero`, afresh. An array holds the top layer, (2, words, width), or all
    layers, (1 + layers, words, 2 * width).
    """
    if len(slots) != len(expected):
        raise UserError(
            f"expected one file of activations for each of the {len(slots)} slots of sentences, "
            f"got {len(expected)}"
        )
    tally = _Tally()
    with ExitStack() as stack:
        stored = [stack.enter_context(stored_arrays(path)) for path in expected]
        for path, arrays, slot in zip(expected, stored, slots, strict=True):
            require_numbers(path, arrays, len(slot))
        for number, read in enumerate(_readings(model, slots, start)):
            layers = read.layers.float().cpu().numpy()
            for place, slot in enumerate(slots):
                ours = layers[:, place, : len(slot[number])]
                _compare(tally, ours, expected[place], stored[place], str(number))
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


def _readings(model: BiLM, slots: Sequence[Slot], start: Start) -> Iterator[LayerActivations]:
    """The first texts of all slots, then the second ones, and so on."""
    state: BiLMState | None = None
    for texts in zip(*slots, strict=True):
        batch = whole_batch(texts, model.vocabulary, spelled=model.config.spelled)
        read = model.activations(batch.to(model.device), state if start == "carry" else None)
        state = read.state
        yield read


def _compare(tally: _Tally, ours: Array, path: Path, stored: Stored, name: str) -> None:
    """Compare all layers of a text, (1 + layers, words, 2 * width), or the top one alone."""
    layers, words, both = ours.shape
    top_alone = (2, words, both // 2)
    theirs = read_expected(path, name, stored[name], top_alone, ours.shape)
    if theirs.shape == top_alone:
        theirs = np.concatenate(tuple(theirs), axis=1)[None]
        ours = ours[-1:]
    for layer, (mine, other) in enumerate(zip(ours, theirs, strict=True), layers - len(ours)):
        tally.add(layer, "forward", mine[:, : both // 2], other[:, : both // 2])
        tally.add(layer, "backward", mine[:, both // 2 :], other[:, both // 2 :])


def _layer_and_place(key: tuple[int, Direction]) -> tuple[int, int]:
    return key[0], _ORDER.index(key[1])
