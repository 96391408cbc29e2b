"""Folders go to the hub, and what the hub's cache holds loads: its files are links to blobs."""

from __future__ import annotations

from pathlib import Path

import pytest

import elmo
from elmo.config import BILM, CLASSIFIER
from elmo.errors import UserError
from elmo.files import sha256
from elmo.model_folder import COMPANIONS


def snapshot(cache: Path, source: Path) -> Path:
    """The layout of the Hugging Face cache: snapshots/REVISION/FILE -> ../../blobs/HASH."""
    repo = cache / "models--user--name"
    folder = repo / "snapshots" / ("0" * 40)
    (repo / "blobs").mkdir(parents=True)
    for path in source.rglob("*"):
        if path.is_file():
            blob, link = repo / "blobs" / sha256(path), folder / path.relative_to(source)
            blob.write_bytes(path.read_bytes())
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(blob)
    return folder


def test_folders_of_the_hubs_cache_load(tmp_path) -> None:
    folder = snapshot(tmp_path / "bilm", BILM)
    assert elmo.Embedder.from_pretrained(folder).encode("Oil fell .").shape == (512,)
    classifier = elmo.TextClassifier.from_pretrained(snapshot(tmp_path / "c", CLASSIFIER))
    assert classifier.predict(["Oil prices fell on Monday ."]).shape == (1,)


def test_other_links_out_of_a_folder_do_not(tmp_path) -> None:
    folder = snapshot(tmp_path / "bilm", BILM)
    outside = tmp_path / "outside"
    outside.write_bytes((BILM / "vocabulary.txt").read_bytes())
    (folder / "vocabulary.txt").unlink()
    (folder / "vocabulary.txt").symlink_to(outside)
    with pytest.raises(UserError, match="leads out"):
        elmo.Embedder.from_pretrained(folder)


def test_a_model_is_pushed_as_it_is_saved(tmp_path, monkeypatch) -> None:
    hub = pytest.importorskip("huggingface_hub", reason="huggingface_hub is not installed")
    pushed: dict[str, object] = {}

    def create_repo(self: object, repo: str, **options: object) -> str:
        pushed.update(options)
        return f"https://hub.example/{repo}"

    def upload_folder(self: object, *, repo_id: str, folder_path: Path, **_: object) -> None:
        embedder = elmo.Embedder.from_pretrained(folder_path)
        pushed["dim"], pushed["names"] = embedder.dim, {path.name for path in folder_path.iterdir()}

    # The hub itself is out of reach in tests; its client is the real one up to these two calls.
    monkeypatch.setattr(hub.HfApi, "create_repo", create_repo)
    monkeypatch.setattr(hub.HfApi, "upload_folder", upload_folder)
    embedder = elmo.Embedder.from_pretrained()
    assert embedder.push_to_hub("user/name", private=True) == "https://hub.example/user/name"
    assert pushed["private"] is True
    assert pushed["dim"] == embedder.dim
    files = {"README.md", "config.json", "model.safetensors", "vocabulary.txt"}
    assert pushed["names"] == files | set(COMPANIONS)
    with pytest.raises(UserError, match="user/model"):
        embedder.push_to_hub("name")

    def unreachable(self: object, repo: str, **options: object) -> str:
        raise RuntimeError(
            "Name or service not known\nand more"
        )  # httpx.ConnectError is no OSError

    monkeypatch.setattr(hub.HfApi, "create_repo", unreachable)
    with pytest.raises(UserError, match=r"not uploaded \(Name or service not known\); log in"):
        embedder.push_to_hub("user/name")
