"""A file is whole or as it was before, and what went wrong is told to the user."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from elmo import files
from elmo.errors import UserError
from elmo.files import (
    atomic_folder,
    atomic_write,
    explained,
    locked,
    read_json,
    read_text,
    remove_leftovers,
    reserve_space,
    sha256,
    write_json,
    write_json_lines,
    write_text,
)

FULL = Path("/dev/full")
needs_full = pytest.mark.skipif(not FULL.exists(), reason="needs the device /dev/full")
needs_permissions = pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")


def listed(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def write_half(path: Path, error: BaseException) -> None:
    with atomic_write(path) as temporary:
        temporary.write_text("half")
        raise error


def write_half_a_folder(path: Path, error: BaseException) -> None:
    with atomic_folder(path) as temporary:
        (temporary / "new").write_text("half")
        raise error


def fill_the_disk(path: Path) -> None:
    with atomic_write(path) as temporary:
        temporary.symlink_to(FULL)
        temporary.write_text("new")


def fill_the_disk_with_a_folder(path: Path) -> None:
    with atomic_folder(path) as temporary:
        (temporary / "a").write_text("text")
        (temporary / "b").symlink_to(FULL)
        (temporary / "b").write_text("text")


def test_what_is_written_takes_the_old_place(tmp_path: Path) -> None:
    write_text(tmp_path / "deep" / "er" / "a.txt", "old")
    write_text(tmp_path / "deep" / "er" / "a.txt", "ñew\n")
    assert (tmp_path / "deep" / "er" / "a.txt").read_bytes() == "ñew\n".encode()
    assert listed(tmp_path / "deep" / "er") == ["a.txt"]


def test_the_old_file_is_there_until_the_new_one_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("old")
    with atomic_write(path) as temporary:
        temporary.write_text("new")
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
    with atomic_folder(folder) as temporary:
        (temporary / "sub").mkdir()
        (temporary / "sub" / "new").write_text("text")
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
    assert seen[0][0].startswith(".a.txt.")
    assert [there for _, there in seen] == [False, True]
    assert seen[1][0] == tmp_path.name


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
        atomic_folder(tmp_path / name),
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


def test_leftovers_of_killed_processes_are_removed_and_nothing_of_the_users(tmp_path: Path) -> None:
    (tmp_path / "checkpoints").mkdir()
    for path in (tmp_path / "checkpoints" / "step-1", tmp_path / "README.md", tmp_path / "a"):
        files.temporary_path(path).mkdir()
        (files.temporary_path(path)).write_text("half")
    mine = {".my.partial", ".my.77.partial", "README.md", ".b.elmo-0a1b2c3d.partially"}
    for name in mine:
        (tmp_path / name).write_text("whole")
    remove_leftovers(tmp_path, "a")
    assert len([name for name in listed(tmp_path) if "elmo-" in name]) == 3
    assert not [name for name in listed(tmp_path) if name.startswith(".a.")]
    remove_leftovers(tmp_path)
    assert {path.name for path in tmp_path.rglob("*")} == {"checkpoints", *mine}


def test_a_deletion_that_is_cut_short_leaves_nothing_under_the_name(tmp_path, monkeypatch):
    folder = tmp_path / "step"
    folder.mkdir()
    (folder / "a").write_text("a")
    (folder / "b").write_text("b")

    def cut_short(path: Path, *, ignore_errors: bool) -> None:
        (path / "a").unlink()
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("elmo.files.shutil.rmtree", cut_short)
        with pytest.raises(KeyboardInterrupt):
            files.remove_folder(folder)
    assert not folder.exists()
    files.remove_leftovers(tmp_path)
    assert not list(tmp_path.iterdir())


HOLD = """
import sys
from pathlib import Path
from elmo.files import locked
with locked(Path(sys.argv[1]), "busy"):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_lock_keeps_others_out_until_its_holder_dies(tmp_path: Path) -> None:
    path = tmp_path / "new" / ".lock"
    command = [sys.executable, "-c", HOLD, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(UserError, match="in use"), locked(path, "in use"):
            pytest.fail("two hold one lock")
        holder.kill()
        holder.wait()
    with locked(path, "in use"), pytest.raises(UserError, match="again"), locked(path, "again"):
        pytest.fail("two hold one lock")
    with locked(path, "in use", wait=True):
        pass


def test_a_lock_neither_follows_links_nor_empties_files(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("precious")
    (tmp_path / "link").symlink_to(tmp_path / "mine.txt")
    os.mkfifo(tmp_path / "pipe")
    for name in ("link", "pipe"):
        with pytest.raises(UserError, match="expected a lock file"), locked(tmp_path / name, ""):
            pytest.fail("locked")
    with locked(tmp_path / "mine.txt", ""):
        pass
    assert (tmp_path / "mine.txt").read_text() == "precious"


def test_pipes_and_devices_are_refused_rather_than_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "config.json")
    for path in (tmp_path / "config.json", Path("/dev/zero")):
        with pytest.raises(UserError, match="expected a regular file"):
            read_json(path)


def test_space_is_reserved_with_and_without_the_systems_help(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("linux", "elsewhere"):
        with (tmp_path / name).open("wb") as file:
            reserve_space(file, 5000)
        assert (tmp_path / name).stat().st_size == 5000
        monkeypatch.delattr(os, "posix_fallocate", raising=False)


def test_files_are_written_where_folders_cannot_be_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    really, opened = os.open, list[tuple[Path, int]]()
    (tmp_path / "a.txt").touch()

    def noted(path: Path, flags: int) -> int:
        opened.append((path, flags))
        return really(path, flags)

    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setattr(os, "open", noted)
    files.sync(tmp_path / "a.txt")
    files.sync(tmp_path)
    assert opened == [(tmp_path / "a.txt", os.O_RDWR)]
