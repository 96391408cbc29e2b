"""Starting and ending the server: sockets, workers, signals, slow headers."""

from __future__ import annotations

import asyncio
import json
import logging
import math
import os
import signal
import socket
import sys
import tempfile
import time
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, cast

import uvicorn
from uvicorn.protocols.http.auto import AutoHTTPProtocol

from elmo.config import check, from_json, to_json
from elmo.errors import UserError
from elmo.files import read_text
from elmo.serve.config import ServeConfig

if TYPE_CHECKING:
    from fastapi import FastAPI

CONFIG_VARIABLE, TOKEN_VARIABLE = "ELMO_SERVE_CONFIG", "ELMO_SERVE_TOKEN"
SHORTEST_TOKEN = 16
DRAIN_SECONDS = 1.0
"""Seconds after SIGTERM in which /ready answers 503 before the server stops listening."""
BACKLOG = 2048
LARGEST_HEAD = 1 << 16
_apps: list[FastAPI] = []
"""The applications of this process, which are notified of a signal."""
log = logging.getLogger(__name__)


def read_token(path: Path | None) -> str | None:
    """The token from a file, or from the environment variable ELMO_SERVE_TOKEN."""
    token = os.environ.get(TOKEN_VARIABLE) if path is None else read_text(path, 4096).strip()
    if token is None or (path is None and not token):
        return None
    where = TOKEN_VARIABLE if path is None else str(path)
    if len(token) < SHORTEST_TOKEN or not token.isascii() or any(map(str.isspace, token)):
        raise UserError(
            f"{where}: expected a token of at least {SHORTEST_TOKEN} ASCII characters without "
            "spaces; make one: python -c 'import secrets; print(secrets.token_urlsafe())'"
        )
    return token


def check_exposure(config: ServeConfig, token: str | None) -> None:
    """Refuse to be reachable from other machines without a token."""
    if not config.is_loopback and token is None:
        raise UserError(
            f"host {config.host}: other machines could reach the server, and no token protects it; "
            f"use --token-file FILE or {TOKEN_VARIABLE}, or leave --host out"
        )


def app_from_environment() -> FastAPI:
    """The application of a worker process, whose settings come in an environment variable."""
    from elmo.serve.app import create_app

    _share_the_interpreter()
    config = from_json(ServeConfig, json.loads(os.environ[CONFIG_VARIABLE]), CONFIG_VARIABLE)
    app = create_app(config, read_token(None))
    _apps.append(app)
    return app


def _share_the_interpreter() -> None:
    """Let the event loop interrupt the torch thread after 1 ms.

    By default it waits 5 ms for Python's lock: at 32 clients, half of the loop's time (profiled).
    """
    sys.setswitchinterval(0.001)


class PatientProtocol(cast("type[Any]", AutoHTTPProtocol)):
    """uvicorn's protocol, with a limit on the time that the head of a request may take.

    uvicorn waits for ever for the first request of a connection, and for the rest of a head.
    """

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Start the clock."""
        super().connection_made(transport)
        self._head_timer = None
        self._head_bytes = 0
        self._start_timer()

    def data_received(self, data: bytes) -> None:
        """Stop the clock once a head is complete."""
        super().data_received(data)
        idle = self.cycle is None or self.cycle.response_complete
        self._head_bytes = self._head_bytes + len(data) if idle else 0
        if not idle:
            self._stop_timer()
        elif self._head_bytes > LARGEST_HEAD:  # httptools itself has no limit
            self._refuse(b"431 Request Header Fields Too Large")
        elif self._head_timer is None:
            self._start_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the clock."""
        self._stop_timer()
        super().connection_lost(exc)

    def _start_timer(self) -> None:
        seconds = getattr(self.config, "head_seconds", 10.0)
        self._head_timer = self.loop.call_later(seconds, self._too_slow)

    def _stop_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _too_slow(self) -> None:
        self._head_timer = None
        self._refuse(b"408 Request Timeout")

    def _refuse(self, status: bytes) -> None:
        if not self.transport.is_closing():
            rest = b"\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
            self.transport.write(b"HTTP/1.1 " + status + rest)
            self.transport.close()


class Server(uvicorn.Server):
    """uvicorn's server, which reports that it is not ready before it stops listening."""

    _drained_at: float | None = None

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """On SIGTERM, drain first; on Ctrl-C, or a second signal, stop at once."""
        for app in _apps:
            app.state.server.draining = True
        if sig == signal.SIGTERM and self._drained_at is None:
            self._drained_at = time.monotonic() + DRAIN_SECONDS
            self._captured_signals.append(sig)
            return
        super().handle_exit(sig, frame)

    async def on_tick(self, counter: int) -> bool:
        """Stop once the load balancers had time to see it."""
        if self._drained_at is not None and time.monotonic() >= self._drained_at:
            self.should_exit = True
        return await super().on_tick(counter)


def uvicorn_config(config: ServeConfig, app: FastAPI | str) -> uvicorn.Config:
    """Settings for uvicorn: no access log, since texts are private."""
    made = uvicorn.Config(
        app,
        factory=isinstance(app, str),
        host=config.host,
        port=config.port,
        workers=config.workers,
        http=cast("Any", PatientProtocol),
        ws="none",
        lifespan="on",
        limit_concurrency=config.limits.connections,
        timeout_graceful_shutdown=int(config.limits.shutdown_seconds),
        timeout_keep_alive=math.ceil(config.limits.body_seconds),
        backlog=BACKLOG,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        log_level="warning",
        log_config=None,
    )
    cast("Any", made).head_seconds = config.limits.body_seconds
    return made


def bind(config: ServeConfig) -> socket.socket:
    """Take the port, or say that it is taken."""
    family = socket.AF_INET6 if ":" in config.host else socket.AF_INET
    # The protocol by name: asyncio switches Nagle's algorithm off only where it is told that this
    # is TCP. Without that, each answer waited 40 ms for the client's acknowledgement.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    if sys.platform != "win32":
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((config.host, config.port))
    except (OSError, OverflowError) as error:
        listener.close()
        reason = getattr(error, "strerror", None) or error
        raise UserError(
            f"cannot listen on {config.host}:{config.port}: {reason}; choose another --port, or 0 "
            "for any free one"
        ) from None
    listener.set_inheritable(True)
    return listener


def address(config: ServeConfig, listener: socket.socket, token: str | None = None) -> str:
    """The link to the page; a token comes in its fragment, which browsers do not send."""
    host = f"[{config.host}]" if ":" in config.host else config.host
    host = "127.0.0.1" if host == "0.0.0.0" else host  # noqa: S104
    link = f"http://{host}:{listener.getsockname()[1]}/"
    return link if token is None else f"{link}#token={token}"


def serve(config: ServeConfig, token: str | None, listener: socket.socket) -> None:
    """Serve until a signal comes."""
    check(config)
    check_exposure(config, token)
    _share_the_interpreter()
    if config.workers == 1:
        from elmo.serve.app import create_app

        app = create_app(config, token)
        _apps.append(app)
        Server(uvicorn_config(config, app)).run(sockets=[listener])
        return
    from uvicorn.supervisors import Multiprocess

    os.environ[CONFIG_VARIABLE] = json.dumps(to_json(config))
    if token is not None:
        os.environ[TOKEN_VARIABLE] = token
    with tempfile.TemporaryDirectory(prefix="elmo-metrics-") as folder:
        os.environ["PROMETHEUS_MULTIPROC_DIR"] = folder
        settings = uvicorn_config(config, "elmo.serve.run:app_from_environment")
        Multiprocess(settings, sockets=[listener]).run()
