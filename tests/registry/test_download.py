"""Downloads from a real server: whole, in ranges, slowly, broken off, wrong, dead, recovered."""

from __future__ import annotations

import hashlib
import logging
import os
import sys
from pathlib import Path

import pytest
from tests.registry.conftest import Server

from elmo.errors import UserError
from elmo.registry import download as module
from elmo.registry.download import download, read_address

CONTENT = os.urandom(300_000)
LIMIT = 1 << 20


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def test_whole(server: Server, tmp_path: Path) -> None:
    address = server.serve("/a", CONTENT)
    assert download([address], tmp_path / "a", limit=LIMIT) == (address, sha256(CONTENT))
    assert (tmp_path / "a").read_bytes() == CONTENT
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["a"]


def test_slowly_and_without_a_length(server: Server, tmp_path: Path) -> None:
    address = server.serve("/a", CONTENT, "slow", "nolength")
    for name in ("slow", "nolength"):
        download([address], tmp_path / name, limit=LIMIT)
        assert (tmp_path / name).read_bytes() == CONTENT


def test_in_ranges(server: Server, tmp_path: Path) -> None:
    """A download that breaks off twice resumes both times, and then again after a failed run."""
    address = server.serve("/a", CONTENT, "cut:100000", "cut:100000")
    download([address], tmp_path / "a", limit=LIMIT)
    assert (tmp_path / "a").read_bytes() == CONTENT
    assert server.requests == [
        ("/a", None), ("/a", "bytes=100000-"), ("/a", "bytes=200000-")
    ]  # fmt: skip


def test_resumed_by_the_next_run(server: Server, tmp_path: Path) -> None:
    address = server.serve("/a", CONTENT, *["cut:50000"] * module.ATTEMPTS)
    with pytest.raises(UserError, match="200,000 bytes are kept, and the same command resumes"):
        download([address], tmp_path / "a", limit=LIMIT)
    assert not (tmp_path / "a").exists()
    download([address], tmp_path / "a", limit=LIMIT)
    assert (tmp_path / "a").read_bytes() == CONTENT
    assert server.requests[-1] == ("/a", "bytes=200000-")


def test_another_version_is_not_appended(server: Server, tmp_path: Path) -> None:
    address = server.serve("/a", CONTENT, *["cut:50000"] * module.ATTEMPTS)
    with pytest.raises(UserError):
        download([address], tmp_path / "a", limit=LIMIT)
    other = os.urandom(len(CONTENT))
    server.serve("/a", other)
    download([address], tmp_path / "a", limit=LIMIT)
    assert (tmp_path / "a").read_bytes() == other


def test_without_a_validator_it_starts_over(server: Server, tmp_path: Path) -> None:
    server.validators = False
    address = server.serve("/a", CONTENT, "cut:50000")
    download([address], tmp_path / "a", limit=LIMIT)
    assert (tmp_path / "a").read_bytes() == CONTENT
    assert server.requests == [("/a", None), ("/a", None)]


def test_a_wrong_range_is_not_appended(server: Server, tmp_path: Path) -> None:
    address = server.serve("/a", CONTENT, "cut:50000", "wrongrange")
    download([address], tmp_path / "a", limit=LIMIT)
    assert (tmp_path / "a").read_bytes() == CONTENT


def test_a_shorter_file_than_is_here_already(server: Server, tmp_path: Path) -> None:
    """The server answers 416: nothing is left to send."""
    address = server.serve("/a", CONTENT)
    (tmp_path / "a.part").write_bytes(CONTENT + b"more")
    tag = f'"{hash(CONTENT)}"'.replace('"', '\\"')
    (tmp_path / "a.part.json").write_text(f'{{"address": "{address}", "validator": "{tag}"}}')
    download([address], tmp_path / "a", limit=LIMIT)
    assert (tmp_path / "a").read_bytes() == CONTENT
    assert server.requests[0][1] is not None


def test_stalled(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TIMEOUT", 0.2)
    address = server.serve("/a", CONTENT, "stall:1")
    download([address], tmp_path / "a", limit=LIMIT)
    assert (tmp_path / "a").read_bytes() == CONTENT


@pytest.mark.parametrize("code", ["404", "403", "500"])
def test_dead_then_recovered(server: Server, tmp_path: Path, code: str) -> None:
    address = server.serve("/a", CONTENT, *[code] * 10)
    with pytest.raises(UserError, match=f"HTTP {code}") as told:
        download([address], tmp_path / "a", limit=LIMIT, what="the model", advice="Look elsewhere.")
    assert "the model: no address gave the file" in str(told.value)
    assert "Look elsewhere." in str(told.value)
    assert len(server.requests) == (module.ATTEMPTS if code == "500" else 1)
    server.serve("/a", CONTENT)
    download([address], tmp_path / "a", limit=LIMIT)
    assert (tmp_path / "a").read_bytes() == CONTENT


def test_500_is_asked_again(server: Server, tmp_path: Path) -> None:
    address = server.serve("/a", CONTENT, "500", "503", "429")
    download([address], tmp_path / "a", limit=LIMIT)
    assert (tmp_path / "a").read_bytes() == CONTENT


def test_mirrors_in_order(server: Server, tmp_path: Path) -> None:
    gone, wrong = server.address + "/gone", server.serve("/wrong", b"another file")
    page = server.serve("/page", b"\n<!DOCTYPE html><p>moved")
    right = server.serve("/right", CONTENT)
    unused = server.serve("/unused", CONTENT)
    checksums = {"md5": hashlib.md5(CONTENT).hexdigest(), "sha256": sha256(CONTENT)}
    addresses = ["http://127.0.0.1:9/x", gone, page, wrong, right, unused]
    found, _ = download(addresses, tmp_path / "a", limit=LIMIT, checksums=checksums)
    assert found == right
    assert (tmp_path / "a").read_bytes() == CONTENT
    assert [path for path, _ in server.requests] == ["/gone", "/page", "/wrong", "/right"]


def test_every_reason_is_told(server: Server, tmp_path: Path) -> None:
    page = server.serve("/page", b"<html>")
    wrong = server.serve("/wrong", b"x")
    addresses = [page, wrong, "ftp://127.0.0.1/x", "file:///etc/passwd"]
    with pytest.raises(UserError) as told:
        download(addresses, tmp_path / "a", limit=LIMIT, checksums={"sha256": sha256(CONTENT)})
    assert "answers with a web page" in str(told.value)
    assert f"its sha256 is {sha256(b'x')}, expected {sha256(CONTENT)}" in str(told.value)
    assert str(told.value).count("not an http:// or https:// address") == 2
    assert not list(tmp_path.glob("a*.part"))


def test_redirects(server: Server, tmp_path: Path) -> None:
    server.serve("/b", CONTENT)
    address = server.serve("/a", b"", "redirect:/b")
    assert download([address], tmp_path / "a", limit=LIMIT) == (address, sha256(CONTENT))
    for target in ("file:///etc/passwd", "ftp://127.0.0.1/a"):
        address = server.serve("/a", b"", f"redirect:{target}")
        with pytest.raises(UserError, match=r"not followed|not allowed"):
            download([address], tmp_path / "c", limit=LIMIT)
    address = server.serve("/a", b"", *["redirect:/a"] * 40)
    with pytest.raises(UserError, match="redirect"):
        download([address], tmp_path / "c", limit=LIMIT)


def test_limits(server: Server, tmp_path: Path) -> None:
    address = server.serve("/a", CONTENT)
    with pytest.raises(UserError, match="has 300,000 bytes, more than the 1,000 allowed"):
        download([address], tmp_path / "a", limit=1000)
    server.serve("/a", CONTENT, "nolength")
    with pytest.raises(UserError, match="gives more than the 1,000 bytes allowed"):
        download([address], tmp_path / "a", limit=1000)
    assert not list(tmp_path.glob("a*.part"))


def test_progress(server: Server, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    address = server.serve("/a", CONTENT, "slow")
    with caplog.at_level(logging.INFO, logger="elmo"):
        download([address], tmp_path / "a", limit=LIMIT, what="the model")
    lines = [record.getMessage() for record in caplog.records]
    assert lines[-1] == "downloading the model: 0.3 MB of 0.3 MB"


def test_progress_bar(
    server: Server,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setattr(logging.getLogger("elmo"), "level", logging.NOTSET)
    address = server.serve("/a", CONTENT)
    download([address], tmp_path / "a", limit=LIMIT, what="the model")
    shown = capsys.readouterr().err
    assert "the model" in shown
    assert "300.0/300.0 kB" in shown


def test_small_answers(server: Server) -> None:
    address = server.serve("/api", b"[1]", "500")
    assert read_address(address, 100) == b"[1]"
    with pytest.raises(UserError, match="more than 2 bytes"):
        read_address(address, 2)
    with pytest.raises(UserError, match="HTTP 404"):
        read_address(server.address + "/gone", 100)
