"""Snapshots are whole, few, and passed over where they are damaged."""

from __future__ import annotations

from pathlib import Path

import pytest

from elmo.errors import UserError
from elmo.files import sha256
from elmo.snapshots import check_whole, newest_snapshot, next_step, snapshot_written


def write(folder: Path, text: str, kept: int = 2) -> None:
    with snapshot_written(folder, next_step(folder), kept) as beside:
        (beside / "text").write_text(text)


def load(path: Path) -> str:
    text = (path / "text").read_text()
    if text == "damaged":
        raise UserError(f"{path}: damaged")
    return text


def test_the_newest_are_kept_and_the_newest_is_loaded(tmp_path: Path) -> None:
    assert newest_snapshot(tmp_path, load) is None
    for number in range(12):
        write(tmp_path, str(number))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step-000000011", "step-000000012"]
    assert newest_snapshot(tmp_path, load) == "11"


def test_what_fails_on_the_way_leaves_what_was_there(tmp_path: Path) -> None:
    write(tmp_path, "whole", kept=1)

    def fail() -> None:
        with snapshot_written(tmp_path, next_step(tmp_path), kept=1) as beside:
            (beside / "text").write_text("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert [path.name for path in tmp_path.iterdir()] == ["step-000000001"]
    assert newest_snapshot(tmp_path, load) == "whole"


def test_a_damaged_one_is_named_passed_over_and_gone_with_the_next(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write(tmp_path, "sound")
    write(tmp_path, "damaged")
    assert newest_snapshot(tmp_path, load) == "sound"
    assert "step-000000002: damaged" in caplog.text
    write(tmp_path, "new", kept=1)
    assert [load(path) for path in tmp_path.iterdir()] == ["new"]


def test_a_file_that_changed_is_told_of(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("as written")
    checksum = sha256(path)
    check_whole(path, checksum)
    path.write_text("as writtem")
    with pytest.raises(UserError, match="checksum"):
        check_whole(path, checksum)
    path.unlink()
    with pytest.raises(UserError, match="checksum"):
        check_whole(path, checksum)
