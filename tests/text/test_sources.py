"""What a user may name, and what is said when it cannot be found."""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from elmo.errors import UserError
from elmo.text.config import ReadOptions
from elmo.text.sources import Source, first_row, read_columns, read_documents, resolve


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ["b.txt", "a.TXT", "sub/c.csv", "sub/d.bin", ".hidden.txt", ".dot/e.txt"]:
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"text of {path.name}\n")
    return tmp_path


def names(sources: list[Source]) -> list[str]:
    return [source.path.name for source in sources]


def give_standard_input(monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(content)))


def test_folder_gives_its_readable_files_in_order(folder: Path) -> None:
    assert names(resolve([str(folder)])) == ["a.TXT", "b.txt", "c.csv"]


def test_patterns(folder: Path) -> None:
    assert names(resolve([f"{folder}/*.txt"])) == ["b.txt"]
    assert names(resolve([f"{folder}/**/*.[ct]*"])) == ["b.txt", "c.csv"]


def test_a_file_named_twice_is_read_once(folder: Path) -> None:
    assert names(resolve([f"{folder}/b.txt", f"{folder}/*.txt"])) == ["b.txt"]


def test_a_file_whose_name_looks_like_a_pattern(tmp_path: Path) -> None:
    (tmp_path / "a[1].txt").write_text("text\n")
    assert names(resolve([f"{tmp_path}/a[1].txt"])) == ["a[1].txt"]


def test_a_named_file_without_known_suffix_is_plain_text(folder: Path) -> None:
    sources = resolve([str(folder / "sub" / "d.bin")])
    assert list(read_documents(sources, ReadOptions())) == ["text of d.bin"]


def test_column_leaves_plain_text_alone(folder: Path) -> None:
    sources = resolve([str(folder)])
    found = list(read_documents(sources, ReadOptions(column="0")))
    assert found == ["text of a.TXT", "text of b.txt", "text of c.csv"]


def test_first_rows_of_tables(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("1,good\n")
    (tmp_path / "b.jsonl").write_text('\n{"label": 1, "text": "good"}\n{"other": 2}\n')
    (tmp_path / "c.tsv").write_text("\n")
    table, objects, empty = resolve([str(tmp_path)])
    assert first_row(table, ReadOptions()) == ["1", "good"]
    assert first_row(objects, ReadOptions()) == ["label", "text"]
    with pytest.raises(UserError, match="holds no text"):
        first_row(empty, ReadOptions())


def test_rows_of_plain_text_with_the_blank_ones(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n\ntwo\n")
    [source] = resolve([str(tmp_path / "a.txt")])
    assert list(read_columns(source, None, ReadOptions())) == [("one",), ("",), ("two",)]


def test_fingerprint_changes_with_the_file(folder: Path) -> None:
    [source] = resolve([str(folder / "b.txt")])
    before = source.fingerprint()
    assert resolve([str(folder / "b.txt")])[0].fingerprint() == before
    source.path.write_text("other text\n")
    assert source.fingerprint() != before


def test_standard_input_can_be_read_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    give_standard_input(monkeypatch, b"one\n\ntwo")
    sources = resolve(["-"])
    for _ in range(2):
        assert list(read_documents(sources, ReadOptions())) == ["one", "two"]


def test_standard_input_is_known_by_its_content(monkeypatch: pytest.MonkeyPatch) -> None:
    prints: list[str] = []
    for content in (b"one", b"one", b"two"):
        give_standard_input(monkeypatch, content)
        prints += [source.fingerprint() for source in resolve(["-"])]
    assert prints[0] == prints[1] != prints[2]


def test_empty_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    give_standard_input(monkeypatch, b"")
    with pytest.raises(UserError, match=r"standard input.*it is empty"):
        resolve(["-"])


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("bb.txt", r"no file or folder .*did you mean '.*/b\.txt'"),
        ("nothing/b.txt", "nor a folder '.*nothing'"),
        ("*.md", r"no file matches '.*\*\.md'"),
        ("x.json", r"\.json files cannot be read; convert it to one of \.txt"),
        ("empty", "the folder '.*empty' has no readable files"),
    ],
)
def test_what_cannot_be_found(folder: Path, name: str, message: str) -> None:
    (folder / "empty").mkdir()
    (folder / "x.json").write_text("{}")
    with pytest.raises(UserError, match=message):
        resolve([str(folder / name)])


def test_no_source_and_doubled_standard_input() -> None:
    with pytest.raises(UserError, match="no text was named"):
        resolve([])
    with pytest.raises(UserError, match="more than once"):
        resolve(["-", "-"])


def test_no_permission(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sources = resolve([str(folder / "b.txt")])

    # Patched rather than chmod, which does not stop root.
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(UserError, match=r"cannot read .*Permission denied"):
        resolve([str(folder / "b.txt")])
    with pytest.raises(UserError, match=r"cannot read .*Permission denied"):
        list(read_documents(sources, ReadOptions()))


def test_named_pipe(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.txt")
    with pytest.raises(UserError, match="not a regular file"):
        resolve([str(tmp_path / "pipe.txt")])
