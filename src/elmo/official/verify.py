"""Whether a model computes what somebody stored: the largest difference a layer and direction."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
import torch
from numpy.lib import format as npy
from numpy.typing import NDArray
from torch import Tensor

from elmo.bilm.model import BiLM, BiLMState, token_vectors
from elmo.config import from_json
from elmo.errors import UserError
from elmo.files import read_json, read_text
from elmo.official.format import read_token_vectors, read_words
from elmo.official.hdf5 import opened, read_numbers, require_readable, shape_and_type
from elmo.text.batching import pack_texts

# Activations that somebody stored, in .hdf5 or .npz, one array a text under the text's number.


Array = NDArray[np.float32]
NOT_ACTIVATIONS = ("sentence_to_index",)
"""What AllenNLP writes beside them."""


@dataclass(frozen=True)
class StoredArray:
    """An array whose shape is known before its numbers are read."""

    shape: tuple[int, ...] | None
    kind: str
    read: Callable[[], Array]


Stored = Mapping[str, StoredArray]


@contextmanager
def stored_arrays(path: Path) -> Generator[Stored]:
    """The arrays of a file, by name."""
    if path.suffix == ".npz":
        with _opened_npz(path) as arrays:
            yield arrays
        return
    with opened(path) as datasets:
        yield {
            name: StoredArray(*shape_and_type(dataset), _reader(path, name, dataset))
            for name, dataset in datasets.items()
            if name not in NOT_ACTIVATIONS
        }


def require_numbers(path: Path, stored: Stored, texts: int) -> None:
    """Make sure that there is one array for each text, named by its number from 0."""
    wanted = {str(number) for number in range(texts)}
    if stored.keys() != wanted:  # pyright: ignore[reportUnnecessaryComparison]
        odd = sorted(stored.keys() ^ wanted)[:5]
        raise UserError(
            f"{path}: expected one array for each of {texts:,} texts, named 0 to {texts - 1}; "
            f"missing or left over: {', '.join(odd)}"
        )


def read_expected(path: Path, name: str, array: StoredArray, *shapes: tuple[int, ...]) -> Array:
    """The numbers of an array that has one of these shapes."""
    if array.shape not in shapes or array.kind not in ("float32", "float64"):
        wanted = " or ".join(map(str, shapes))
        raise UserError(
            f"{path}: {name!r} is {array.shape} of {array.kind}, expected {wanted} of float32; "
            "are these the sentences and the model it was made with?"
        )
    return array.read()


def _reader(path: Path, name: str, dataset: Any) -> Callable[[], Array]:
    def read() -> Array:
        require_readable(path, {name: dataset})
        return read_numbers(dataset)

    return read


@contextmanager
def _opened_npz(path: Path) -> Generator[Stored]:
    try:
        with zipfile.ZipFile(path) as archive:
            yield {name.removesuffix(".npy"): _member(archive, name) for name in archive.namelist()}
    except UserError:
        raise
    except FileNotFoundError:
        raise UserError(f"{path}: no such file") from None
    except (OSError, ValueError, zipfile.BadZipFile, EOFError, NotImplementedError) as error:
        raise UserError(f"{path}: damaged or not an .npz file ({error})") from None


def _member(archive: zipfile.ZipFile, name: str) -> StoredArray:
    """Read the header alone: the numbers only where the shape is the one that was expected."""
    with archive.open(name) as stream:
        version = npy.read_magic(stream)
        header = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
        shape, _, kind = header(stream)

    def read() -> Array:
        with archive.open(name) as stream:
            return np.asarray(npy.read_array(stream, allow_pickle=False), np.float32)

    return StoredArray(tuple(shape), str(kind), read)


# The sentences that stored activations belong to: slots read side by side, texts in order.


LARGEST_FILE = 1 << 30
Slot = list[list[str]]
"""Texts, as words, that are read one after the other."""


def read_slots(path: Path) -> list[Slot]:
    """Read sentences whose words have spaces between.

    JSON holds a list of sentences or, for several slots, a list of such lists of equal length;
    any other file a sentence a line.
    """
    slots = [[text.split() for text in slot] for slot in _texts(path)]
    if not slots or not slots[0] or any(not words for slot in slots for words in slot):
        raise UserError(f"{path}: expected sentences with words, but there is none or an empty one")
    if len({len(slot) for slot in slots}) > 1:
        raise UserError(f"{path}: expected as many sentences in each slot; they differ")
    return slots


def _texts(path: Path) -> Sequence[Sequence[str]]:
    if path.suffix != ".json":
        return [read_text(path, LARGEST_FILE).removesuffix("\n").split("\n")]
    found = cast("object", read_json(path, LARGEST_FILE))
    slots = [found] if _is_one_slot(found) else found
    return from_json(cast("Any", tuple[tuple[str, ...], ...]), slots, str(path))


def _is_one_slot(found: object) -> bool:
    sentences = cast("list[object]", found) if isinstance(found, list) else []
    return bool(sentences) and isinstance(sentences[0], str)


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
            layers = read.float().cpu().numpy()
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


@torch.no_grad()
def _readings(model: BiLM, slots: Sequence[Slot], start: Start) -> Iterator[Tensor]:
    """The first texts of all slots, then the second ones, and so on."""
    state: BiLMState | None = None
    for texts in zip(*slots, strict=True):
        batch = pack_texts(texts, model.vocabulary, spelled=model.spelled, read_end=True)
        outputs = model.layers(batch.to(model.device), state if start == "carry" else None)
        state = outputs.state
        yield outputs.padded()[0]


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
