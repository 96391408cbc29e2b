"""Files wherever they are: found, fetched, read; what is not there is told."""

from __future__ import annotations

import pytest

from elmo.contextual.remote_files import find_files, is_address, refuse_taken
from elmo.errors import UserError
from elmo.text.sources import ReadOptions

fsspec = pytest.importorskip("fsspec", reason="needs the extra `ray`")


@pytest.fixture
def memory():
    """A file system in memory, as far away as any other for our purposes."""
    files = fsspec.filesystem("memory")
    files.pipe("/texts/b.txt", b"second\n")
    files.pipe("/texts/a.csv", b"id,text\n1,first\n")
    yield files
    files.rm("/texts", recursive=True)


def texts(*sources: str) -> list[str]:
    return [text for file in find_files(sources) for text in file.documents(ReadOptions())]


def test_folders_patterns_and_files_at_addresses(memory, tmp_path):
    assert texts("memory://texts") == ["first", "second"]
    assert texts("memory://texts/*.txt") == ["second"]
    (tmp_path / "here.txt").write_text("local\n")
    assert texts("memory://texts/b.txt", str(tmp_path / "here.txt")) == ["second", "local"]


def test_what_is_wrong_is_told_with_the_address(memory):
    with pytest.raises(UserError, match="no file is there"):
        find_files(["memory://texts/none.txt"])
    with pytest.raises(UserError, match="nonsense"):
        find_files(["nonsense://x"])
    memory.pipe("/texts/bad.txt", b"\xff\xff\n")
    with pytest.raises(UserError, match="memory://"):
        texts("memory:///texts/bad.txt")


def test_what_is_there_is_not_overwritten(memory, tmp_path):
    refuse_taken("memory://texts/new.parquet")
    refuse_taken(str(tmp_path / "new.parquet"))
    for taken in ("memory://texts/b.txt", str(tmp_path)):
        with pytest.raises(UserError, match="there already"):
            refuse_taken(taken)


def test_addresses_are_told_from_paths():
    assert is_address("s3://bucket/x.txt")
    assert not is_address("folder/x.txt")
