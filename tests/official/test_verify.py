"""Stored activations are compared layer by layer, and what does not fit them is told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from tests.official.golden_elmo import Golden, State, golden

from elmo.bilm.model import BiLM
from elmo.errors import UserError
from elmo.language_model import open_model
from elmo.official.verify import Slot, read_slots, verify_activations

SLOTS: list[Slot] = [
    [["the", "cat"], ["雨", "x", "y"]],
    [["one"], ["two", "three"]],
]


@pytest.fixture(scope="module")
def theirs() -> Golden:
    return golden()


@pytest.fixture(scope="module")
def model(theirs: Golden, tmp_path_factory: pytest.TempPathFactory) -> BiLM:
    return open_model(theirs.write(tmp_path_factory.mktemp("models") / "golden")).model


def carried(theirs: Golden, slot: Slot) -> list[np.ndarray[Any, Any]]:
    state: State | None = None
    found: list[np.ndarray[Any, Any]] = []
    for words in slot:
        layers, state = theirs.read(words, state)
        found.append(layers.astype(np.float32))
    return found


def write(path: Path, arrays: list[np.ndarray[Any, Any]]) -> Path:
    with h5py.File(path, "w") as file:
        for number, array in enumerate(arrays):
            file[str(number)] = array
        file["sentence_to_index"] = "{}"
    return path


def test_all_layers_are_compared(theirs: Golden, model: BiLM, tmp_path: Path) -> None:
    arrays = [carried(theirs, slot) for slot in SLOTS]
    arrays[1][1][1, 0, 5] += 0.25  # layer 1, backward
    files = [write(tmp_path / f"{n}.hdf5", one) for n, one in enumerate(arrays)]
    found = verify_activations(model, SLOTS, files)
    assert [(one.layer, one.direction, one.words) for one in found] == [
        (layer, direction, 8) for layer in range(3) for direction in ("forward", "backward")
    ]
    for one in found:
        if (one.layer, one.direction) == (1, "backward"):
            assert one.largest == pytest.approx(0.25, abs=1e-5)
        else:
            assert one.within(5e-6)


def test_the_top_layer_alone_is_compared(theirs: Golden, model: BiLM, tmp_path: Path) -> None:
    tops = [
        [np.stack(np.split(layers[-1], 2, axis=1)) for layers in carried(theirs, slot)]
        for slot in SLOTS
    ]
    files = [write(tmp_path / f"{n}.hdf5", one) for n, one in enumerate(tops)]
    found = verify_activations(model, SLOTS, files)
    assert [one.layer for one in found] == [2, 2]
    assert all(one.within(5e-6) for one in found)
    afresh = verify_activations(model, SLOTS, files, start="zero")
    assert not any(one.within(1e-3) for one in afresh)


def test_what_is_no_number_is_told(theirs: Golden, model: BiLM, tmp_path: Path) -> None:
    arrays = [carried(theirs, slot) for slot in SLOTS]
    arrays[0][0][2, 0, 0] = np.nan
    files = [write(tmp_path / f"{n}.hdf5", one) for n, one in enumerate(arrays)]
    with pytest.raises(UserError, match="holds numbers that are not finite"):
        verify_activations(model, SLOTS, files)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ([np.zeros((2, 2, 4), "f4")], "expected one array for each of 2 texts"),
        ([np.zeros((2, 9, 4), "f4")] * 2, r"'0' is \(2, 9, 4\) of float32, expected \(2, 2, 4\)"),
        ([np.zeros((2, 2, 4), "i4")] * 2, "of int32, expected"),
    ],
)
def test_arrays_of_other_texts_are_told(
    model: BiLM, tmp_path: Path, arrays: list[Any], message: str
) -> None:
    path = write(tmp_path / "x.hdf5", arrays)
    with pytest.raises(UserError, match=message):
        verify_activations(model, SLOTS[:1], [path])


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 and more", bytes(200)])
def test_a_damaged_file_is_told(model: BiLM, tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.hdf5"
    path.write_bytes(content)
    with pytest.raises(UserError, match=r"x\.hdf5: not an HDF5"):
        verify_activations(model, SLOTS[:1], [path])


def test_a_file_is_needed_for_each_slot(model: BiLM, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="each of the 2 slots of sentences, got 1"):
        verify_activations(model, SLOTS, [tmp_path / "x.hdf5"])


@pytest.mark.parametrize(
    ("name", "content", "slots"),
    [
        ("a.txt", "the cat\n雨 x\n", [[["the", "cat"], ["雨", "x"]]]),
        ("a.json", '["the cat", "x"]', [[["the", "cat"], ["x"]]]),
        ("a.json", '[["the cat"], ["x"]]', [[["the", "cat"]], [["x"]]]),
        (
            "a.json",
            '[[["a b", "c"], ["d"]], [["e"], ["f"]]]',
            [(("a b", "c"), ("d",)), (("e",), ("f",))],
        ),
    ],
)
def test_sentences_are_read(tmp_path: Path, name: str, content: str, slots: list[Slot]) -> None:
    (tmp_path / name).write_text(content)
    found = read_slots(tmp_path / name)
    assert [[list(words) for words in slot] for slot in found] == [
        [list(words) for words in slot] for slot in slots
    ]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.txt", "", "none or an empty one"),
        ("a.txt", "x\n\ny\n", "none or an empty one"),
        ("a.json", "[]", "none or an empty one"),
        ("a.json", '[["x"], ["y", "z"]]', "they differ"),
        ("a.json", '[["x"], 3]', "expected a list, got int"),
        ("a.json", '{"x": 1}', "expected a list, got dict"),
        ("a.json", "3", "expected a list, got int"),
        ("a.json", '[[["x"], "y z"]]', "expected a list, got str"),
        ("a.json", '[[["x"], [3]]]', "expected str, got 3"),
        ("a.json", '[[["x"], []]]', "none or an empty one"),
    ],
)
def test_sentences_that_cannot_be_are_told(
    tmp_path: Path, name: str, content: str, message: str
) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(UserError, match=message):
        read_slots(tmp_path / name)
