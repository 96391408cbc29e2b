"""Files that are damaged, odd or hostile end in one clear sentence, and take no memory."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.official.golden_elmo import Golden, golden

from elmo.errors import UserError
from elmo.language_model import describe, open_model

CELL = "RNN_0/RNN/MultiRNNCell/Cell0/LSTMCell"
Edit = Callable[[Any], None]


@pytest.fixture(scope="module")
def theirs() -> Golden:
    return golden()


@pytest.fixture
def folder(theirs: Golden, tmp_path: Path) -> Path:
    return theirs.write(tmp_path / "model")


@pytest.fixture(autouse=True)
def little_memory() -> Iterator[None]:
    """NumPy tells tracemalloc of its arrays."""
    tracemalloc.start()
    yield
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 100 << 20


def refused(folder: Path) -> str:
    with pytest.raises(UserError) as raised:
        open_model(folder)
    with pytest.raises(UserError):
        describe(folder)
    return str(raised.value)


def edit(folder: Path, change: Edit) -> None:
    with h5py.File(folder / "weights.hdf5", "a") as file:
        change(file)


def replace(name: str, **options: Any) -> Edit:
    def change(file: Any) -> None:
        del file[name]
        file.create_dataset(name, **options)

    return change


@pytest.mark.parametrize(
    ("name", "cause"),
    [
        (f"{CELL}/W_0", "lstm.n_layers, dim or projection_dim"),
        ("CNN/b_cnn_1", "char_cnn.filters"),
        ("CNN_high_0/W_carry", "char_cnn.n_highway"),
        ("CNN_proj/b_proj", "char_cnn.filters or lstm.projection_dim"),
        ("char_embed", "'char_cnn' in the options"),
    ],
)
def test_a_missing_dataset_is_named_with_shape_and_cause(
    folder: Path, theirs: Golden, name: str, cause: str
) -> None:
    edit(folder, lambda file: file.__delitem__(name))
    message = refused(folder)
    assert f"{name} {theirs.weights[name].shape} is missing" in message
    assert f"Likely cause: {cause}" in message


def test_extra_datasets_are_named(folder: Path) -> None:
    edit(folder, lambda file: file.create_dataset("softmax/W", data=np.zeros((3, 4), "f4")))
    message = refused(folder)
    assert "softmax/W (3, 4) is not expected" in message
    assert "Likely cause: the softmax was written too" in message


def test_every_problem_is_told_at_once(folder: Path) -> None:
    edit(folder, replace("char_embed", data=np.zeros((262, 3), "f4")))
    edit(folder, replace("CNN/b_cnn_0", data=np.zeros(2, "f8")))
    message = refused(folder)
    assert "char_embed is (262, 3), expected (261, 3)" in message
    assert "CNN/b_cnn_0 holds float64, expected float32" in message
    assert "a row for padding was written too" in message


@pytest.mark.parametrize(
    "options",
    [
        {"data": np.zeros(2, "i4")},
        {"data": np.zeros(2, "f2")},
        {"data": [b"a", b"b"]},
        {"shape": (2,), "dtype": h5py.special_dtype(vlen=str)},
        {"shape": (2,), "dtype": h5py.special_dtype(vlen=np.float32)},
        {"shape": (2,), "dtype": np.dtype([("a", "f4")])},
        {"data": h5py.Empty("f4")},
        {"data": 1.0, "dtype": "f4"},
        {"shape": (2, 10**15), "dtype": "f4", "chunks": (1, 1000)},
        {"shape": (10**17,), "dtype": "f4", "chunks": (1000,)},
    ],
)
def test_other_types_and_sizes_are_refused(folder: Path, options: dict[str, Any]) -> None:
    edit(folder, replace("CNN/b_cnn_0", **options))
    message = refused(folder)
    assert "CNN/b_cnn_0" in message
    assert "expected" in message


def test_numbers_that_were_never_written_are_refused(folder: Path) -> None:
    edit(folder, replace("CNN/b_cnn_0", shape=(2,), dtype="f4"))
    assert "CNN/b_cnn_0 was never written" in refused(folder)


def test_options_and_weights_cannot_claim_memory_together(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("elmo.official.hdf5.SMALL", 1 << 20)
    options = json.loads((folder / "options.json").read_text())
    options["lstm"]["dim"] = 10**5
    (folder / "options.json").write_text(json.dumps(options))
    with h5py.File(folder / "weights.hdf5", "a") as file:
        for direction in (0, 1):
            for layer in (0, 1):
                cell = f"RNN_{direction}/RNN/MultiRNNCell/Cell{layer}/LSTMCell"
                for name, shape in (
                    ("W_0", (8, 4 * 10**5)), ("B", (4 * 10**5,)), ("W_P_0", (10**5, 4))
                ):  # fmt: skip
                    del file[f"{cell}/{name}"]
                    chunks = tuple(min(size, 1000) for size in shape)
                    made = file.create_dataset(
                        f"{cell}/{name}", shape, "f4", chunks=chunks, compression="gzip"
                    )
                    made[(0,) * len(shape)] = 1.0  # else it is refused as never written
    assert "bytes of numbers, which a file of" in refused(folder)


@pytest.mark.parametrize("change", [{"n_layers": 10**9}, {"dim": 10**5}, {"projection_dim": 5}])
def test_options_that_contradict_the_weights_are_told(folder: Path, change: dict[str, int]) -> None:
    options = json.loads((folder / "options.json").read_text())
    options["lstm"] |= change
    (folder / "options.json").write_text(json.dumps(options))
    message = refused(folder)
    assert "layers: expected 1 to 256" in message or "lstm" in message


def test_a_size_beyond_all_bounds_is_told(folder: Path) -> None:
    options = json.loads((folder / "options.json").read_text())
    options["lstm"]["dim"] = 10**12
    (folder / "options.json").write_text(json.dumps(options))
    assert "options.json: hidden: expected 1 to 131,072, got 1,000,000,000,000" in refused(folder)


@pytest.mark.parametrize(
    "link",
    [
        h5py.SoftLink("/CNN/b_cnn_1"),
        h5py.ExternalLink("other.hdf5", "/x"),
        h5py.ExternalLink("/etc/passwd", "/x"),
    ],
)
def test_links_are_not_followed(folder: Path, link: Any) -> None:
    def change(file: Any) -> None:
        del file["CNN/b_cnn_0"]
        file["CNN/b_cnn_0"] = link

    edit(folder, change)
    assert "b_cnn_0 is a link" in refused(folder)


def test_numbers_in_other_files_are_not_read(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "raw").write_bytes(bytes(8))
    edit(
        folder,
        replace("CNN/b_cnn_0", shape=(2,), dtype="f4", external=[(tmp_path / "raw", 0, 8)]),
    )
    assert "keeps its numbers in another file" in refused(folder)


def test_virtual_datasets_are_not_read(folder: Path) -> None:
    layout = h5py.VirtualLayout((2,), "f4")
    layout[:] = h5py.VirtualSource("other.hdf5", "x", (2,))

    def change(file: Any) -> None:
        del file["CNN/b_cnn_0"]
        file.create_virtual_dataset("CNN/b_cnn_0", layout)

    edit(folder, change)
    assert "neither contiguous nor chunked" in refused(folder)


def test_a_group_within_itself_ends(folder: Path) -> None:
    edit(folder, lambda file: file["CNN"].__setitem__("again", file["CNN"]))
    assert "more groups and datasets than any model has" in refused(folder)


def test_compressed_numbers_are_read(folder: Path, theirs: Golden) -> None:
    values = theirs.weights["char_embed"]
    edit(folder, replace("char_embed", data=values, compression="gzip", shuffle=True))
    open_model(folder)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not an HDF5 file"),
        (b"<!DOCTYPE html>", "it may be a web page"),
        (b"\x89HDF\r\n\x1a\n" + bytes(100), "damaged"),
        (b"version https://git-lfs.github.com/spec/v1", "Git LFS"),
    ],
)
def test_another_kind_of_file_is_told(folder: Path, content: bytes, message: str) -> None:
    (folder / "weights.hdf5").write_bytes(content)
    assert message in refused(folder)


def test_an_hdf5_file_of_something_else_is_told(folder: Path) -> None:
    with h5py.File(folder / "weights.hdf5", "w") as file:
        file["model_weights/dense/kernel"] = np.zeros(3, "f4")
    assert "not of an official ELMo model: it holds model_weights/dense/kernel" in refused(folder)


@pytest.mark.parametrize("share", [0.01, 0.3, 0.7, 0.95, 0.999])
def test_a_truncated_file_is_damaged(folder: Path, share: float) -> None:
    content = (folder / "weights.hdf5").read_bytes()
    (folder / "weights.hdf5").write_bytes(content[: int(share * len(content))])
    assert "damaged" in refused(folder)


KINDS_OF_DAMAGE = ("missing", "extra", "shape", "type", "huge", "unwritten", "group")
TYPES = ("f8", "f2", "i4", "u1", "S3", "c8", "?")
HUGE = st.lists(st.integers(1, 2**50), min_size=1, max_size=4)


@given(data=st.data())
def test_every_kind_of_damage_is_told(
    tmp_path_factory: pytest.TempPathFactory, theirs: Golden, data: st.DataObject
) -> None:
    folder = theirs.write(tmp_path_factory.mktemp("damage") / "model")
    names = st.sampled_from(sorted(theirs.weights))
    with h5py.File(folder / "weights.hdf5", "a") as file:
        for name in data.draw(st.lists(names, min_size=1, max_size=3, unique=True)):
            damage(file, name, data.draw(st.sampled_from(KINDS_OF_DAMAGE)), data)
    assert refused(folder)
    content = (folder / "weights.hdf5").read_bytes()
    length = data.draw(st.integers(0, len(content) - 1))
    (folder / "weights.hdf5").write_bytes(content[:length])
    assert refused(folder)


def damage(file: Any, name: str, kind: str, data: st.DataObject) -> None:
    """Do one thing to a dataset that no model can bear."""
    shape = file[name].shape
    if kind == "extra":
        file.create_dataset(f"{name}_again", data=np.zeros(shape, "f4"))
        return
    del file[name]
    if kind == "shape":
        other = data.draw(st.lists(st.integers(0, 9), max_size=5).filter(lambda s: s != [*shape]))
        file.create_dataset(name, tuple(other), "f4", np.zeros(other, "f4"))
    elif kind == "type":
        file.create_dataset(name, shape, data.draw(st.sampled_from(TYPES)))
    elif kind == "huge":
        large = tuple(data.draw(HUGE.filter(lambda s: s != [*shape])))
        with suppress(ValueError):  # more than the format itself can hold: missing, then
            file.create_dataset(name, large, "f4", chunks=tuple(min(one, 8) for one in large))
    elif kind == "unwritten":
        file.create_dataset(name, shape, "f4")
    elif kind == "group":
        file.create_group(name)


@given(seed=st.integers(0, 2**32))
def test_random_changes_never_crash(tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    folder = golden(seed=1).write(tmp_path_factory.mktemp("fuzz") / "model")
    random = np.random.default_rng(seed)
    content = bytearray((folder / "weights.hdf5").read_bytes())
    for place in random.integers(0, min(len(content), 6000), size=int(random.integers(1, 40))):
        content[place] = int(random.integers(256))
    (folder / "weights.hdf5").write_bytes(content)
    with suppress(UserError):
        open_model(folder)


def test_no_weights_or_several_are_told(folder: Path) -> None:
    (folder / "weights.hdf5").rename(folder / "a.hdf5")
    (folder / "b.hdf5").write_bytes(b"")
    assert "exactly one .hdf5 file of weights, but here is options.json, a.hdf5, b.hdf5" in refused(
        folder
    )
    (folder / "b.hdf5").unlink()
    (folder / "options.json").unlink()
    assert "here is a.hdf5" in refused(folder)


@pytest.mark.parametrize("name", ["options.json", "weights.hdf5"])
def test_a_link_out_of_the_folder_is_refused(folder: Path, name: str) -> None:
    (folder / name).rename(folder.parent / "elsewhere")
    (folder / name).symlink_to(folder.parent / "elsewhere")
    assert "leads out of the model folder" in refused(folder)
