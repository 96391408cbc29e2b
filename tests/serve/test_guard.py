"""Attacks: other hosts, other origins, wrong tokens, tricky paths, slow and oversized requests."""

from __future__ import annotations

import socket
import time
from typing import Any

import httpx2
import pytest
from tests.serve.conftest import SOAK, TOKEN, Running, read_all, running

from elmo.serve.config import Limits, ServeConfig


@pytest.fixture(scope="module")
def guarded(cache: object) -> Any:
    config = ServeConfig(
        port=0,
        limits=Limits(body_seconds=0.5, connections=24),
        allow_origin=("https://lab.example",),
        corpus_words=500,
    )
    with running(config, TOKEN) as found:
        yield found


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "localhost.evil", ""])
def test_foreign_hosts(server: Running, host: str) -> None:
    for path in ("/", "/api/info", "/v1/models", "/health"):
        answer = server.client.get(path, headers={"host": host})
        assert answer.status_code == 400
        assert "models" not in answer.text


def test_own_hosts(server: Running) -> None:
    for host in ("localhost", f"localhost:{server.port}", "127.0.0.1:1", "[::1]:8000"):
        assert server.client.get("/health", headers={"host": host}).status_code == 200


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://127.0.0.1:1", "x"])
def test_foreign_origins(server: Running, origin: str) -> None:
    body = {"texts": ["a"]}
    answer = server.client.post("/api/embed", json=body, headers={"origin": origin})
    assert answer.status_code == 403
    assert "access-control-allow-origin" not in answer.headers
    own = server.client.post("/api/embed", json=body, headers={"origin": server.url})
    assert own.status_code == 200


def test_allowed_origin(guarded: Running) -> None:
    headers = {"origin": "https://lab.example", "access-control-request-method": "POST"}
    asked = guarded.client.options("/api/embed", headers=headers)
    assert asked.headers["access-control-allow-origin"] == "https://lab.example"
    body = {"texts": ["a"]}
    answer = guarded.client.post("/api/embed", json=body, headers={"origin": headers["origin"]})
    assert answer.status_code == 200
    assert answer.headers["access-control-allow-origin"] == "https://lab.example"


@pytest.mark.parametrize(
    "header",
    [None, "", "Bearer", f"Basic {TOKEN}", f"Bearer {TOKEN}x", "Bearer é", TOKEN],
)
def test_wrong_tokens(guarded: Running, header: str | None) -> None:
    headers = [] if header is None else [(b"authorization", header.encode("latin-1"))]
    with httpx2.Client(base_url=guarded.url) as client:
        for path in ("/api/info", "/v1/models", "/metrics", "/openapi.json"):
            answer = client.get(path, headers=headers)
            assert answer.status_code == 401
            assert answer.headers["www-authenticate"] == "Bearer"
        assert client.post("/api/embed", json={"texts": ["a"]}, headers=headers).status_code == 401
        assert client.get("/health").status_code == client.get("/ready").status_code == 200
        assert client.get("/").status_code == 200  # the page holds no data


def test_right_token(guarded: Running) -> None:
    assert guarded.client.get("/api/info").status_code == 200
    lower = {"authorization": f"bearer {TOKEN}"}
    assert httpx2.get(f"{guarded.url}/api/info", headers=lower).status_code == 200


@pytest.mark.parametrize(
    "path",
    [
        "/static/../app.py",
        "/static/..%2fapp.py",
        "/static/%2e%2e/%2e%2e/config.py",
        "/static/....//app.py",
        "/static//etc/passwd",
        "/static/vendor/../../app.py",
        "/static/\\..\\app.py",
        "/static/app.js%00.html",
        "/static/",
        "/static/vendor",
        "/../../etc/passwd",
    ],
)
def test_path_tricks(server: Running, path: str) -> None:
    request = f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    answer = server.raw(request.encode("latin-1"))
    assert answer.split()[1] in (b"404", b"400"), answer[:200]
    assert b"import" not in answer.partition(b"\r\n\r\n")[2]


def test_headers_of_every_answer(server: Running) -> None:
    for path in ("/", "/static/app.js", "/api/info", "/nothing", "/health"):
        headers = server.client.get(path).headers
        policy = headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; script-src 'self'")
        assert "unsafe" not in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
    for path in ("/docs", "/redoc"):
        assert server.client.get(path).status_code == 404


def test_oversized_chunked_body(server: Running) -> None:
    size = (64 << 20) if SOAK else (4 << 20)
    chunk = b"%x\r\n" % 65536 + b"a" * 65536 + b"\r\n"
    head = b"POST /api/embed HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
    with socket.create_connection(("127.0.0.1", server.port), 30) as connection:
        connection.sendall(head)
        try:
            for _ in range(size // 65536):
                connection.sendall(chunk)
            connection.sendall(b"0\r\n\r\n")
        except (BrokenPipeError, ConnectionResetError):
            pass
        answer = read_all(connection)
    assert not answer or b"413" in answer.split(b"\r\n")[0]
    assert server.client.get("/health").status_code == 200


def test_a_body_that_claims_too_much(server: Running) -> None:
    head = b"POST /api/embed HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999\r\n\r\n"
    assert b" 413 " in server.raw(head + b"x").split(b"\r\n")[0]


def test_slow_bodies(guarded: Running) -> None:
    head = (
        b"POST /api/embed HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        b"Authorization: Bearer " + TOKEN.encode() + b"\r\nContent-Length: 100\r\n\r\n{"
    )
    started = time.monotonic()
    assert b" 408 " in guarded.raw(head).split(b"\r\n")[0]
    assert time.monotonic() - started < 8
    # Bytes that trickle do not extend the time.
    with socket.create_connection(("127.0.0.1", guarded.port), 10) as connection:
        connection.sendall(head)
        for _ in range(8):
            time.sleep(0.1)
            try:
                connection.sendall(b" ")
            except (BrokenPipeError, ConnectionResetError):
                break
        assert b" 408 " in read_all(connection).split(b"\r\n")[0]


@pytest.mark.parametrize("start", [b"", b"GET / HT", b"GET /health HTTP/1.1\r\nHost: loc"])
def test_slow_heads(guarded: Running, start: bytes) -> None:
    assert b" 408 " in guarded.raw(start).split(b"\r\n")[0]


def test_slow_head_after_a_request(guarded: Running) -> None:
    first = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
    answer = guarded.raw(first + b"GET /hea")
    assert answer.count(b"HTTP/1.1 200") == 1


def test_too_many_connections(guarded: Running) -> None:
    idle = [socket.create_connection(("127.0.0.1", guarded.port), 10) for _ in range(40)]
    try:
        request = b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        assert b" 503 " in guarded.raw(request).split(b"\r\n")[0]
    finally:
        for connection in idle:
            connection.close()
    end = time.monotonic() + 5
    while httpx2.get(f"{guarded.url}/health").status_code != 200:
        assert time.monotonic() < end


@pytest.mark.parametrize(
    "data",
    [
        b"\x16\x03\x01\x02\x00",
        b"GET\r\n\r\n",
        b"POST /api/embed HTTP/1.1\r\nHost: localhost\r\nContent-Length: -5\r\n\r\n",
        b"POST /api/embed HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n"
        b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 2_000_000 + b"\r\n\r\n",
    ],
)
def test_broken_http(guarded: Running, data: bytes) -> None:
    answer = guarded.raw(data)
    assert not answer or answer.split()[1] in (b"400", b"408", b"413", b"422", b"431", b"401")
    assert b"Traceback" not in answer
    assert guarded.client.get("/health").status_code == 200
