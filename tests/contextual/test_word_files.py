"""A file of token vectors is whole or not there, in every format."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from elmo.contextual.encoder import Vectors
from elmo.contextual.word_files import WordVectors, check_word_file, write_word_file
from elmo.errors import UserError

SUFFIXES = [".npz", ".parquet", ".h5", ".hdf5"]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_work_that_fails_leaves_nothing(tmp_path: Path, suffix: str) -> None:
    def portions() -> Iterator[Vectors]:
        yield np.zeros((1, 2), np.float32)
        raise UserError("out of luck")

    with pytest.raises(UserError, match="out of luck"):
        write_word_file(tmp_path / f"t{suffix}", WordVectors(("a", "b"), 2, portions()))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_what_is_there_is_not_written_over(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"t{suffix}"
    check_word_file(path)
    write_word_file(path, WordVectors(("a",), 2, [np.ones((1, 2), np.float32)]))
    with pytest.raises(UserError, match="is there already"):
        check_word_file(path)
    has_words_beside = (tmp_path / "t.txt").exists()
    assert has_words_beside == (suffix in (".h5", ".hdf5"))
