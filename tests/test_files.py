"""A file is whole or as it was before, and what went wrong is told to the user."""

from __future__ import annotations

import errno
import hashlib
import json
import os
from pathlib import Path

import pytest

from elmo import files
from elmo.errors import UserError
from elmo.files import (
    explained,
    folder_written_whole,
    read_json,
    read_text,
    remove_leftovers,
    sha256,
    write_json,
    write_json_lines,
    write_text,
    written_whole,
)

FULL = Path("/dev/full")
needs_full = pytest.mark.skipif(not FULL.exists(), reason="needs the device /dev/full")
needs_permissions = pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")


def listed(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def write_half(path: Path, error: BaseException) -> None:
    with written_whole(path) as beside:
        beside.write_text("half")
        raise error


def write_half_a_folder(path: Path, error: BaseException) -> None:
    with folder_written_whole(path) as beside:
        (beside / "new").write_text("half")
        raise error


def fill_the_disk(path: Path) -> None:
    with written_whole(path) as beside:
        beside.symlink_to(FULL)
        beside.write_text("new")


def fill_the_disk_with_a_folder(path: Path) -> None:
    with folder_written_whole(path) as beside:
        (beside / "a").write_text("text")
        (beside / "b").symlink_to(FULL)
        (beside / "b").write_text("text")


def test_what_is_written_takes_the_old_place(tmp_path: Path) -> None:
    write_text(tmp_path / "deep" / "er" / "a.txt", "old")
    write_text(tmp_path / "deep" / "er" / "a.txt", "ñew\n")
    assert (tmp_path / "deep" / "er" / "a.txt").read_bytes() == "ñew\n".encode()
    assert listed(tmp_path / "deep" / "er") == ["a.txt"]


def test_the_old_file_is_there_until_the_new_one_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("old")
    with written_whole(path) as beside:
        beside.write_text("new")
        assert path.read_text() == "old"
    assert path.read_text() == "new"


@pytest.mark.parametrize("exception", [RuntimeError, KeyboardInterrupt, UserError])
def test_an_exception_leaves_the_old_file(tmp_path: Path, exception: type[BaseException]) -> None:
    path = tmp_path / "a.txt"
    path.write_text("old")
    with pytest.raises(exception):
        write_half(path, exception())
    assert path.read_text() == "old"
    assert listed(tmp_path) == ["a.txt"]


def test_an_exception_leaves_the_old_folder(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "old").touch()
    with pytest.raises(RuntimeError):
        write_half_a_folder(folder, RuntimeError())
    assert listed(tmp_path) == ["model"]
    assert listed(folder) == ["old"]


def test_a_folder_takes_the_old_place(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "old").touch()
    with folder_written_whole(folder) as beside:
        (beside / "sub").mkdir()
        (beside / "sub" / "new").write_text("text")
        assert listed(folder) == ["old"]
    assert listed(tmp_path) == ["model"]
    assert listed(folder) == ["sub"]
    assert (folder / "sub" / "new").read_text() == "text"


def test_contents_are_synced_before_the_name_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, seen = tmp_path / "a.txt", list[tuple[str, bool]]()
    monkeypatch.setattr(files, "sync", lambda synced: seen.append((synced.name, path.exists())))
    write_text(path, "text")
    assert seen == [(f".a.txt.{os.getpid()}.partial", False), (tmp_path.name, True)]


@needs_full
def test_a_full_disk_leaves_the_old_file_and_is_told(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("old")
    with pytest.raises(UserError, match="disk is full"):
        fill_the_disk(path)
    assert path.read_text() == "old"
    assert listed(tmp_path) == ["a.txt"]


@needs_full
def test_a_full_disk_leaves_no_half_folder(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    with pytest.raises(UserError, match="disk is full"):
        fill_the_disk_with_a_folder(folder)
    assert listed(tmp_path) == []


def test_a_refused_write_is_told(tmp_path: Path) -> None:
    refused = PermissionError(errno.EACCES, "refused")
    with pytest.raises(UserError, match=r"a\.txt: no permission"):
        write_half(tmp_path / "a.txt", refused)
    with pytest.raises(UserError, match="model: no permission"):
        write_half_a_folder(tmp_path / "model", refused)
    assert listed(tmp_path) == []


@needs_permissions
def test_a_place_that_may_not_be_written_is_told(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(UserError, match="no permission"):
        write_text(tmp_path / "a.txt", "text")


@pytest.mark.parametrize("name", ["file/a.txt", "file/sub/a.txt"])
def test_a_file_in_the_place_of_a_folder_is_told(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").write_text("text")
    with pytest.raises(UserError, match="is a file, not a folder"):
        write_text(tmp_path / name, "text")
    with (
        pytest.raises(UserError, match="is a file, not a folder"),
        folder_written_whole(tmp_path / name),
    ):
        pytest.fail("there is no folder to write to")
    assert listed(tmp_path) == ["file"]


@pytest.mark.parametrize(
    ("number", "advice"),
    [
        (errno.ENOSPC, "disk is full"),
        (errno.EDQUOT, "quota"),
        (errno.EACCES, "no permission"),
        (errno.EPERM, "no permission"),
        (errno.EROFS, "read-only"),
        (errno.ENOENT, "no such file"),
        (errno.EIO, "something else"),
    ],
)
def test_errors_of_the_system_become_advice(number: int, advice: str) -> None:
    message = str(explained(OSError(number, "something else"), Path("some/place")))
    assert message.startswith("some/place: ")
    assert advice in message


def test_json_survives(tmp_path: Path) -> None:
    value = {"é": [1, 2.5, None, True], "b": {"c": "\u2028\n"}}
    write_json(tmp_path / "a.json", value)
    assert read_json(tmp_path / "a.json") == value
    assert "é" in (tmp_path / "a.json").read_text(encoding="utf-8")


def test_json_lines_are_a_value_each(tmp_path: Path) -> None:
    values = [{"text": "a\nb"}, {"text": "λ"}, [1, None]]
    write_json_lines(tmp_path / "a.jsonl", iter(values))
    lines = (tmp_path / "a.jsonl").read_text("utf-8").splitlines()
    assert [json.loads(line) for line in lines] == values
    with pytest.raises(TypeError):
        write_json_lines(tmp_path / "a.jsonl", [object()])
    assert len((tmp_path / "a.jsonl").read_text("utf-8").splitlines()) == 3


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"{", "expected JSON"),
        (b"", "expected JSON"),
        (b"\xff\xfe", "expected UTF-8"),
        (b"[" * 200_000, "expected JSON"),
        (b"1" * 5000, "expected JSON"),
    ],
)
def test_a_broken_json_file_is_told(tmp_path: Path, content: bytes, problem: str) -> None:
    (tmp_path / "a.json").write_bytes(content)
    with pytest.raises(UserError, match=f"a.json: {problem}"):
        read_json(tmp_path / "a.json")


def test_a_file_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such file"):
        read_json(tmp_path / "absent.json")
    with pytest.raises(UserError, match="this is a folder"):
        read_json(tmp_path)


def test_a_file_beyond_its_limit_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("12345")
    assert read_text(tmp_path / "a.txt", limit=5) == "12345"
    with pytest.raises(UserError, match="5 bytes, more than the 4"):
        read_text(tmp_path / "a.txt", limit=4)


def test_hash(tmp_path: Path) -> None:
    content = bytes(range(256)) * 5000
    (tmp_path / "a").write_bytes(content)
    assert sha256(tmp_path / "a") == hashlib.sha256(content).hexdigest()


def test_leftovers_of_dead_processes_are_removed(tmp_path: Path) -> None:
    (tmp_path / "checkpoints" / ".step-1.77.partial").mkdir(parents=True)
    (tmp_path / "checkpoints" / ".step-1.77.partial" / "model.safetensors").write_text("half")
    (tmp_path / ".README.md.77.partial").write_text("half")
    (tmp_path / "README.md").write_text("whole")
    remove_leftovers(tmp_path)
    names = {path.name for path in tmp_path.rglob("*")}
    assert names == {"checkpoints", "README.md"}


def test_a_deletion_that_is_cut_short_leaves_nothing_under_the_name(tmp_path, monkeypatch):
    folder = tmp_path / "step"
    folder.mkdir()
    (folder / "a").write_text("a")
    (folder / "b").write_text("b")

    def cut_short(path: Path) -> None:
        (path / "a").unlink()
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("elmo.files.shutil.rmtree", cut_short)
        with pytest.raises(KeyboardInterrupt):
            files.remove_whole(folder)
    assert not folder.exists()
    files.remove_leftovers(tmp_path)
    assert not list(tmp_path.iterdir())
