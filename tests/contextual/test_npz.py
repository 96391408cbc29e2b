"""What is written piece by piece is what NumPy would have written at once."""

from __future__ import annotations

import zipfile
from itertools import pairwise
from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from elmo.contextual.npz import Strings, add_numbers, add_pieces, add_strings, offsets


@given(st.lists(st.integers(0, 4), max_size=5), st.lists(st.text(max_size=5), max_size=5))
def test_pieces_and_strings(tmp_path_factory: object, sizes: list[int], strings: list[str]) -> None:
    path = Path(tmp_path_factory.mktemp("npz")) / "x.npz"  # pyright: ignore
    random = np.random.default_rng(0)
    pieces = [random.normal(size=(size, 3)).astype(np.float32) for size in sizes]
    with zipfile.ZipFile(path, "w") as archive:
        add_pieces(archive, "rows", (sum(sizes), 3), "<f4", pieces)
        add_numbers(archive, "sizes", np.array(sizes, np.int64))
        add_strings(archive, "name", Strings.of(strings))
    with np.load(path, allow_pickle=False) as found:
        whole = np.concatenate([*pieces, np.zeros((0, 3), np.float32)])
        np.testing.assert_array_equal(found["rows"], whole)
        assert found["sizes"].tolist() == sizes
        text, cuts = found["names"].tobytes(), found["name_offsets"].tolist()
    assert [text[a:b].decode() for a, b in pairwise(cuts)] == strings
    assert offsets(np.array(sizes, np.int64)).tolist() == [
        sum(sizes[:n]) for n in range(len(sizes) + 1)
    ]


@given(st.lists(st.text(st.characters(exclude_categories=()), max_size=5), max_size=5))
def test_strings_come_back(strings: list[str]) -> None:
    packed = Strings.of(strings)
    assert packed.decoded() == strings
    assert packed.sizes.tolist() == [len(one.encode("utf-8", "surrogatepass")) for one in strings]
