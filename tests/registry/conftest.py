"""A real HTTP server on this machine that serves files well or badly, and models to serve."""

from __future__ import annotations

import json
import threading
import time
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Protocol, cast

import pytest
import torch

from elmo.bilm.config import BiLMConfig, CharacterConfig, SoftmaxConfig
from elmo.bilm.model import BiLM
from elmo.language_model import LanguageModel
from elmo.registry import catalogue, download
from elmo.text.vocabulary import SPECIAL_WORDS, Vocabulary


class Register(Protocol):
    """Adds a public model."""

    def __call__(self, name: str, files: dict[str, list[str]], **more: Any) -> None: ...


class Server(ThreadingHTTPServer):
    """Files by path; `behave` says how each request for a path is answered, one after the other."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.files: dict[str, bytes] = {}
        self.behaviours: dict[str, list[str]] = {}
        self.requests: list[tuple[str, str | None]] = []
        """Path and Range of every request."""
        self.validators = True

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def serve(self, path: str, content: bytes, *behaviours: str) -> str:
        """Serve content at a path; with behaviours, badly at first. Returns its address."""
        self.files[path] = content
        self.behaviours[path] = list(behaviours)
        return self.address + path


class Handler(BaseHTTPRequestHandler):
    """404, 403, 500, redirect:PATH, cut:BYTES, slow:SECONDS, nolength, wrongrange, stall."""

    def do_GET(self) -> None:
        server = cast("Server", self.server)
        path = self.path.partition("?")[0]
        server.requests.append((path, self.headers.get("Range")))
        pending = server.behaviours.get(path, [])
        how, _, value = (pending.pop(0) if pending else "well").partition(":")
        if how.isdigit() or path not in server.files:
            self.send_error(int(how) if how.isdigit() else 404)
            return
        if how == "redirect":
            self.send_response(302)
            self.send_header("Location", value)
            self.end_headers()
            return
        content, start = server.files[path], 0
        tag = f'"{hash(content)}"'
        asked = self.headers.get("Range")
        if asked and self.headers.get("If-Range") == tag:
            start = int(asked.removeprefix("bytes=").removesuffix("-"))
            if start >= len(content):
                self.send_error(416)
                return
            self.send_response(206)
            told = start + 1 if how == "wrongrange" else start
            self.send_header("Content-Range", f"bytes {told}-{len(content) - 1}/{len(content)}")
        else:
            self.send_response(200)
        if how != "nolength":
            self.send_header("Content-Length", str(len(content) - start))
        if server.validators:
            self.send_header("ETag", tag)
        self.end_headers()
        body = content[start:]
        if how == "cut":
            body = body[: int(value)]
        if how == "stall":
            self.wfile.write(body[:10])
            time.sleep(float(value))
            return
        step = max(1, len(body) // 20) if how == "slow" else len(body) or 1
        for first in range(0, len(body), step):
            self.wfile.write(body[first : first + step])
            self.wfile.flush()
            time.sleep(float(value or 0.01) if how == "slow" else 0)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setattr(download, "PAUSE", 0.01)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    running = Server()
    thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield running
    running.shutdown()
    thread.join()
    running.server_close()


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ELMO_CACHE", str(tmp_path / "cache"))
    for variable in ("ELMO_OFFLINE", "HF_HUB_OFFLINE"):
        monkeypatch.delenv(variable, raising=False)
    return tmp_path / "cache" / "models"


@pytest.fixture
def register(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Register]:
    """Make public models of files that the server has, in the place of the real ones."""
    path = tmp_path / "models.json"
    models: list[dict[str, Any]] = []

    def add(name: str, files: dict[str, list[str]], **more: Any) -> None:
        entry = {"name": name, "language": "xx", "language_name": "Klingon", "files": files}
        models.append({**entry, "format": "bilm-tf", **more})
        path.write_text(json.dumps(models))
        catalogue.public_models.cache_clear()

    monkeypatch.setattr(catalogue, "MODELS", path)
    yield add
    catalogue.public_models.cache_clear()


def tiny_model(seed: int = 0) -> LanguageModel:
    torch.manual_seed(seed)
    config = BiLMConfig(
        input="characters",
        characters=CharacterConfig(char_dim=3, filters=((1, 4), (2, 4)), highways=1),
        hidden=6,
        projection=4,
        layers=2,
        softmax=SoftmaxConfig(loss="none", tied=False),
    )
    return LanguageModel(BiLM(config, Vocabulary(SPECIAL_WORDS, (0, 0, 0))))


@pytest.fixture
def official(tmp_path: Path) -> Path:
    """A folder of official files."""
    folder = tmp_path / "official"
    tiny_model().save_official(folder)
    return folder


def zipped(folder: Path, inside: str = "") -> bytes:
    """A folder as the bytes of a .zip file, and a file in it that no model needs."""
    path = folder.with_suffix(".made.zip")
    with zipfile.ZipFile(path, "w") as archive:
        for file in sorted(folder.rglob("*")):
            if file.is_file():
                archive.write(file, inside + file.relative_to(folder).as_posix())
        archive.writestr(inside + "virus.exe", b"MZ")
        archive.writestr("__MACOSX/._options.json", json.dumps({}))
    content = path.read_bytes()
    path.unlink()
    return content
