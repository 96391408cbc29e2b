"""A real server on a free port of this machine, started once for all tests of this folder."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import httpx2
import pytest

from elmo.classify.classifier import TextClassifier
from elmo.embed.embedder import Embedder
from elmo.serve.app import create_app
from elmo.serve.config import ServeConfig
from elmo.serve.run import Server, bind, uvicorn_config
from elmo.serve.state import ServerState

SOAK = bool(os.environ.get("ELMO_SOAK"))
TOKEN = "a-token-of-many-letters"
TEXTS = [
    "Oil prices fell on Monday .",
    "We sat on the bank of the river .",
    "It rained",
    "The bank raised its rates , and shares of the airline fell sharply in early trading .",
    "",
    "naïve 雨 \0 unheard-of",
]


@dataclass
class Running:
    """A server that runs in a thread of this process."""

    url: str
    port: int
    state: ServerState
    client: httpx2.Client

    def post(self, path: str, **body: object) -> httpx2.Response:
        return self.client.post(path, json=body)

    def raw(self, data: bytes, seconds: float = 10) -> bytes:
        """What the server answers to these bytes, until it closes the connection."""
        with socket.create_connection(("127.0.0.1", self.port), seconds) as connection:
            with suppress(BrokenPipeError, ConnectionResetError):  # refused before the end
                connection.sendall(data)
            return read_all(connection)


def read_all(connection: socket.socket) -> bytes:
    answer = b""
    try:
        while chunk := connection.recv(65536):
            answer += chunk
    except ConnectionResetError:
        pass
    return answer


@contextmanager
def running(config: ServeConfig, token: str | None = None) -> Generator[Running]:
    listener = bind(config)
    app = create_app(config, token)
    server = Server(uvicorn_config(config, app))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    port = listener.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    headers = {} if token is None else {"authorization": f"Bearer {token}"}
    state: ServerState = app.state.server
    with httpx2.Client(base_url=url, headers=headers, timeout=60) as client:
        wait_until(lambda: state.ready or state.failure is not None)
        assert state.failure is None, state.failure
        yield Running(url, port, state, client)
    server.should_exit = True
    thread.join(30)
    assert not thread.is_alive()


def wait_until(condition: object, seconds: float = 240) -> None:
    end = time.monotonic() + seconds
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.01)


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    before = os.environ.get("ELMO_CACHE")
    folder = tmp_path_factory.mktemp("cache")
    os.environ["ELMO_CACHE"] = str(folder)
    yield folder
    del os.environ["ELMO_CACHE"]
    if before is not None:
        os.environ["ELMO_CACHE"] = before


@pytest.fixture(scope="session")
def server(cache: Path) -> Iterator[Running]:
    """The shipped models and a small corpus."""
    with running(ServeConfig(port=0, corpus_words=4000)) as found:
        wait_until(lambda: found.state.corpus.state in ("ready", "failed"))
        assert found.state.corpus.state == "ready", found.state.corpus.message
        yield found


@pytest.fixture(scope="session")
def embedder() -> Embedder:
    return Embedder.from_pretrained()


@pytest.fixture(scope="session")
def classifier() -> TextClassifier:
    return TextClassifier.from_pretrained()
