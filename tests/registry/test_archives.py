"""Archives: what a model needs is taken; what leads out of its folder or grows is refused."""

from __future__ import annotations

import io
import random
import stat
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmo.errors import UserError
from elmo.registry import archives
from elmo.registry.archives import is_archive, unpack

MODEL = {"options.json": b"{}", "weights.hdf5": b"\x89HDF", "vocab.txt": b"a\n"}


def as_zip(path: Path, files: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return path


def as_tar(path: Path, files: dict[str, bytes], mode: str = "w:gz") -> Path:
    with tarfile.open(path, mode) as archive:  # pyright: ignore
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return path


def taken(archive: Path, folder: Path) -> dict[str, bytes]:
    folder.mkdir()
    unpack(archive, folder)
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.mark.parametrize(
    ("name", "write"),
    [
        ("a.zip", as_zip),
        ("a.tar.gz", as_tar),
        ("a.tar.xz", lambda path, files: as_tar(path, files, "w:xz")),
        ("a.tar.bz2", lambda path, files: as_tar(path, files, "w:bz2")),
        ("a.tar", lambda path, files: as_tar(path, files, "w")),
    ],
)
@pytest.mark.parametrize("inside", ["", "slovenian/", "uniref50_v2/deep/"])
def test_only_a_models_files(
    tmp_path: Path, name: str, write: Callable[[Path, dict[str, bytes]], Path], inside: str
) -> None:
    files = {inside + file: content for file, content in MODEL.items()}
    others = {f"{inside}run.sh": b"rm", f"{inside}more.pkl": b"x", "__MACOSX/options.json": b"",
              "other/notes.txt": b"hello"}  # fmt: skip
    archive = write(tmp_path / name, {**others, **files})
    assert is_archive(name)
    assert taken(archive, tmp_path / "out") == MODEL


def test_our_folders_and_classifiers(tmp_path: Path) -> None:
    ours = {
        "config.json": b"{}",
        "model.safetensors": b"",
        "vocabulary.txt": b"",
        "spelling.json": b"{}",
    }
    assert taken(as_zip(tmp_path / "a.zip", ours), tmp_path / "a") == ours
    classifier = {"classifier.json": b"{}", "linear.safetensors": b""}
    classifier |= {f"bilm/{name}": content for name, content in ours.items()}
    files = {f"topics/{name}": content for name, content in classifier.items()}
    assert taken(as_zip(tmp_path / "b.zip", files), tmp_path / "b") == classifier


@pytest.mark.parametrize(
    "name", ["../evil.json", "a/../../evil.json", "/etc/evil.json", "\\evil.json", "..\\evil.json",
             "C:\\evil.json", "C:evil.json"]
)  # fmt: skip
@pytest.mark.parametrize("write", [as_zip, as_tar])
def test_names_that_lead_out(
    tmp_path: Path, name: str, write: Callable[[Path, dict[str, bytes]], Path]
) -> None:
    archive = write(tmp_path / "a.zip", {**MODEL, name: b"x"})
    with pytest.raises(UserError, match="leads out of the archive's folder; refused"):
        taken(archive, tmp_path / "out")
    assert not list((tmp_path / "out").iterdir())
    assert not list(tmp_path.rglob("evil*"))


@pytest.mark.parametrize("kind", ["SYMTYPE", "LNKTYPE", "FIFOTYPE", "CHRTYPE"])
def test_links_and_devices_in_tar(tmp_path: Path, kind: str) -> None:
    path = as_tar(tmp_path / "a.tar", MODEL, "w")
    with tarfile.open(path, "a") as archive:
        entry = tarfile.TarInfo("vocab2.txt")
        entry.type = getattr(tarfile, kind)
        entry.linkname = "/etc/passwd"
        archive.addfile(entry)
    with pytest.raises(UserError, match="is a link or a device; refused"):
        taken(path, tmp_path / "out")


def test_links_in_zip(tmp_path: Path) -> None:
    path = as_zip(tmp_path / "a.zip", MODEL)
    with zipfile.ZipFile(path, "a") as archive:
        info = zipfile.ZipInfo("vocab2.txt")
        info.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(info, "/etc/passwd")
    with pytest.raises(UserError, match="is a link or a device; refused"):
        taken(path, tmp_path / "out")


@pytest.mark.parametrize("write", [as_zip, as_tar])
def test_bombs(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    write: Callable[[Path, dict[str, bytes]], Path],
) -> None:
    monkeypatch.setattr(archives, "ALLOWANCE", 1 << 16)
    archive = write(tmp_path / "a.zip", {**MODEL, "big.hdf5": bytes(8 << 20)})
    with pytest.raises(UserError, match="unpacks to more than a model of its size can be"):
        taken(archive, tmp_path / "out")
    assert not list((tmp_path / "out").iterdir())
    monkeypatch.setattr(archives, "MOST_MEMBERS", 100)
    many = {f"{number}.json": b"" for number in range(101)}
    with pytest.raises(UserError, match="unpacks to more"):
        taken(write(tmp_path / "b.zip", many), tmp_path / "many")


def test_a_bomb_that_lies_about_its_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bytes are counted as they come: the declared size of a zip entry is only a claim."""
    monkeypatch.setattr(archives, "ALLOWANCE", 1 << 16)
    path = as_zip(tmp_path / "a.zip", {"options.json": b"{}", "weights.hdf5": bytes(4 << 20)})
    content = path.read_bytes()
    claimed = (4 << 20).to_bytes(4, "little")
    assert content.count(claimed) == 2
    path.write_bytes(content.replace(claimed, (100).to_bytes(4, "little")))
    with pytest.raises(UserError):
        taken(path, tmp_path / "out")
    assert sum(file.stat().st_size for file in (tmp_path / "out").rglob("*")) < 1 << 20


def test_twice_encrypted_several_none(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "a.tar", "w") as twice:
        for _ in range(2):
            twice.addfile(tarfile.TarInfo("options.json"))
    with pytest.raises(UserError, match="twice; refused"):
        taken(tmp_path / "a.tar", tmp_path / "a")
    path = as_zip(tmp_path / "b.zip", MODEL)
    content = bytearray(path.read_bytes())
    content[content.index(b"PK\x01\x02") + 8] |= 1
    path.write_bytes(content)
    with pytest.raises(UserError, match="is encrypted"):
        taken(path, tmp_path / "b")
    several = {f"{folder}/{name}": data for folder in "xy" for name, data in MODEL.items()}
    with pytest.raises(UserError, match="holds several models"):
        taken(as_zip(tmp_path / "c.zip", several), tmp_path / "c")
    with pytest.raises(UserError, match=r"holds no model.*it holds README\.md"):
        taken(as_zip(tmp_path / "d.zip", {"README.md": b""}), tmp_path / "d")


@given(st.data())
def test_damaged_archives_are_refused_or_read(data: st.DataObject) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write = data.draw(st.sampled_from([as_zip, as_tar]))
        files = {**MODEL, "weights.hdf5": random.Random(0).randbytes(3000)}
        archive = write(folder / "a.zip", files)
        content = bytearray(archive.read_bytes())
        if data.draw(st.booleans()):
            del content[data.draw(st.integers(0, len(content) - 1)) :]
        else:
            for index in data.draw(
                st.lists(st.integers(0, len(content) - 1), min_size=1, max_size=6)
            ):
                content[index] = data.draw(st.integers(0, 255))
        archive.write_bytes(content)
        try:
            taken(archive, folder / "out")
        except UserError:
            return
        assert {path.parent for path in (folder / "out").rglob("*")} <= {folder / "out"}
