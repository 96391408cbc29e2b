"""Attacks that need a partner: requests to `elmo serve`, downloads from a hostile server, locales.

All of it stays on the loopback interface, with bounded numbers of bytes and connections. After each
request the server must still give the same vector for the same text.
"""

from __future__ import annotations

import io
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import tarfile
import threading
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.faults.attacks import Attack, Result, Verdict, contents, copied, judge, run

SERVER_SECONDS = 40
"""The longest that the server may take for an answer: its deadline for a request is 30."""
CONNECTIONS = 64
REFERENCE = {"texts": ["oil prices fell on Monday"]}
ROUTES: dict[str, dict[str, object]] = {
    "/v1/embeddings": {"input": "oil fell", "model": "m", "encoding_format": "float"},
    "/api/embed": {"texts": ["oil"], "model": "m", "layer": "mix", "pooling": "mean"},
    "/api/tokenize": {"text": "oil fell", "model": "m"},
    "/api/classify": {"texts": ["oil"], "explain": True, "label": "a", "permutations": 4},
    "/api/score": {"texts": ["oil fell"], "model": "m", "alternatives": 2},
    "/api/predict": {"text": "oil ___ fell", "model": "m", "k": 3, "blank": "___"},
    "/api/similarity": {"left": "oil", "right": "gas fell", "model": "m"},
    "/api/neighbours": {"sentence": "the bank fell", "position": 1, "k": 3, "distinct": "word"},
    "/api/occurrences": {"word": "bank", "limit": 5, "clusters": 2, "components": 2},
}
HOSTILE: dict[str, object] = {
    "null": None,
    "true": True,
    "an empty text": "",
    "no items": [],
    "a list of empty texts": ["", " "],
    "an object": {"a": [1]},
    "-1": -1,
    "1e308": 1e308,
    "99999999999999999999999": 99999999999999999999999,
    "NUL, escape, line break": "a\0b\x1b[31m\n\u202e",
    "half a surrogate pair": "oil \ud800",
    "Thai and an emoji": "ราคาน้ำมัน 😀",
    "20,000 words": "oil " * 20_000,
    "one word of 300,000 letters": "a" * 300_000,
    "3,000 texts": ["oil"] * 3000,
    "lists of lists": [[["oil"]]],
    "a path": "../../etc/passwd",
    "markup": "<script>alert(1)</script>",
}


def post(path: str, body: bytes, *headers: str, length: object = None) -> bytes:
    """The bytes of a request."""
    told = len(body) if length is None else length
    lines = [f"POST {path} HTTP/1.1", "Host: localhost", "Content-Type: application/json",
             f"Content-Length: {told}", "Connection: close", *headers]  # fmt: skip
    return "\r\n".join(lines).encode("utf-8", "surrogateescape") + b"\r\n\r\n" + body


def get(path: str, *headers: str, method: str = "GET") -> bytes:
    """The bytes of a request without a body."""
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost", "Connection: close", *headers]
    return "\r\n".join(lines).encode("utf-8", "surrogateescape") + b"\r\n\r\n"


def requests() -> Iterator[tuple[str, bytes]]:
    """The name and the bytes of every request; each is answered or refused."""
    for path, body in ROUTES.items():
        yield f"{path} as it should be", post(path, json.dumps(body).encode())
        for key in body:
            for what, value in HOSTILE.items():
                changed = json.dumps({**body, key: value}).encode()
                yield f"{path} with {key} = {what}", post(path, changed)
            lacking = {name: body[name] for name in body if name != key}
            yield f"{path} without {key}", post(path, json.dumps(lacking).encode())
        good = json.dumps(body).encode()
        raw = {
            "no JSON": b"{",
            "nothing": b"",
            "a list": b"[]",
            "100,000 brackets": b"[" * 100_000,
            "NaN": good[:-1] + b', "k": NaN}',
            "an unknown key": good[:-1] + b', "nothing": 1}',
            "a key twice": good[:-1] + b', "model": "a", "model": "b"}',
            "UTF-16": good.decode().encode("utf-16"),
            "bytes that are no text": b'{"texts": ["\xff\xfe"]}',
            "a byte order mark": b"\xef\xbb\xbf" + good,
            "3 MB": b'{"texts": ["' + b"a " * 1_500_000 + b'"]}',
        }
        for what, content in raw.items():
            yield f"{path} with {what}", post(path, content)
        yield f"{path} with a foreign origin", post(path, good, "Origin: https://evil.example")
        yield f"{path} as gzip that is none", post(path, good, "Content-Encoding: gzip")
        yield f"{path} as a form", post(path, good).replace(b"application/json", b"text/plain")
        for method in ("GET", "PUT", "DELETE", "TRACE", "PATCH", "X" * 2000):
            yield f"{method[:9]} {path}", get(path, method=method)
    good = json.dumps(REFERENCE).encode()
    for length in (-1, "1e3", "x", 10**30, len(good) - 3, len(good) + 9, f"{len(good)}, 9", ""):
        yield f"Content-Length: {length}", post("/api/embed", good, length=length)
    chunked = "Transfer-Encoding: chunked"
    for what, content in {
        "zz": b"zz\r\n",
        "huge": b"ffffffffffffffff\r\n",
        "cut": b"5\r\nab",
    }.items():
        head = get("/api/embed", chunked, "Content-Type: application/json", method="POST")
        yield f"chunks: {what}", head + content
    yield "both lengths", post("/api/embed", good, chunked)
    for path in ("/../../etc/passwd", "/..%2f..%2fetc/passwd", "//etc/passwd", "/%00", "/.elmo",
                 "/assets/../app.py", "/assets/%2e%2e/%2e%2e/app.py", "/static/..\\..\\app.py",
                 "/" + "a" * 60_000, "/?" + "a=1&" * 10_000, "/api/embed?x=\x1b[31m", "*", "",
                 "http://evil.example/", "/health/../metrics", "/docs", "/openapi.json",
                 "/metrics", "/", "/api/info", "/\udcff"):  # fmt: skip
        yield f"GET {path[:40]!r}", get(path)
    for header in ("X: " + "a" * 200_000, "Host: evil.example", "Host: ", "X\0Y: 1", ": 1",
                   "Expect: 100-continue", "Upgrade: websocket", "Upgrade: h2c",
                   "Authorization: Bearer " + "\udcff" * 99, "Range: bytes=0-,0-,0-",
                   "Accept-Encoding: " + "gzip," * 3000, "Cookie: " + "a=b;" * 3000):  # fmt: skip
        yield f"header {header[:30]!r}", get("/health", header)
    yield "1,000 headers", get("/health", *[f"X-{number}: 1" for number in range(1000)])
    yield "TLS", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(range(256))
    yield "HTTP/2", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(9)
    yield "HTTP/0.9", b"GET /health\r\n\r\n"
    yield "HTTP/9.9", b"GET /health HTTP/9.9\r\nHost: a\r\n\r\n"
    yield "zeros", bytes(100_000)
    yield "line ends", b"\r\n" * 50_000
    yield "a head that never ends", b"GET /health HTTP/1.1\r\nHost: a\r\n"
    yield "a body that never comes", post("/api/embed", b"", length=100)
    yield "two requests in one", get("/health").replace(b"close", b"keep-alive") + get("/health")
    yield "smuggled", post("/api/embed", good + get("/metrics"), chunked)


def exchanged(port: int, content: bytes) -> bytes:
    """What the server answers to these bytes until it closes the connection."""
    answer = b""
    with socket.create_connection(("127.0.0.1", port), SERVER_SECONDS) as connection:
        with suppress(BrokenPipeError, ConnectionResetError):  # refused before the end
            connection.sendall(content)
        with suppress(ConnectionResetError):
            while chunk := connection.recv(1 << 16):
                answer += chunk
    return answer


def vector(port: int) -> object:
    """The vector of a text that no attack may change."""
    head, _, body = exchanged(port, post("/api/embed", json.dumps(REFERENCE).encode())).partition(
        b"\r\n\r\n"
    )
    if b" 200 " not in head[:16]:
        return f"{head[:80]!r}"
    return json.loads(body)["vectors"]


def outcome_of(answer: bytes) -> tuple[str, str]:
    """The outcome that an answer stands for, and why."""
    head, _, body = answer.partition(b"\r\n\r\n")
    if not head:
        return "clear error", "the connection was closed"
    if not head.startswith(b"HTTP/1.1 ") or not head[9:12].isdigit():
        return "wrong", f"no HTTP: {head[:99]!r}"
    status = int(head[9:12])
    if status < 400:
        return "right", ""
    if status == 500 or b"Traceback" in body:
        return "traceback", f"{status}: {body[:300]!r}"
    if len(body) > 4000 or b"\x1b" in body:
        return "wrong", f"{status}: an answer of {len(body)} bytes: {body[:99]!r}"
    has_body = b"content-length: 0" not in head.lower() and b"HEAD" not in head
    if not body and has_body:
        return "wrong", f"{status} without a word"
    return "clear error", f"{status}: {body[:200]!r}"


def free_port() -> int:
    """A port that nobody uses."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def served(original: Path, workspace: Path) -> Iterator[Verdict]:
    """Verdicts of all requests to one server, and of the server itself."""
    group, folder, port = (
        "requests to elmo serve",
        copied(original, workspace / "served"),
        free_port(),
    )
    argv = ["serve", "--port", str(port), "--model", "m", "--classifier", "c", "--corpus",
            "corpus.txt", "--set", "limits.body_seconds=2"]  # fmt: skip
    verdicts: list[Verdict] = []

    def attack(child: int) -> None:
        reference = wait_for(port)
        for name, content in requests():
            what = Attack(group, name, argv)
            try:
                outcome, why = outcome_of(exchanged(port, content))
                if name.endswith("as it should be") and outcome != "right":
                    outcome, why = "wrong", f"refused: {why}"
            except TimeoutError:
                outcome, why = "hang", f"no answer within {SERVER_SECONDS} s"
            verdicts.append(unharmed(Verdict(what, outcome, why), port, reference))
        for name, crowd in CROWDS.items():
            crowd(port)
            time.sleep(0.5)
            what = Attack(group, name, argv)
            verdicts.append(unharmed(Verdict(what, "right", ""), port, reference))
        os.kill(child, signal.SIGTERM)

    before = contents(folder)
    result = run(argv, folder, meanwhile=attack, seconds=40)
    yield from verdicts
    verdict = judge(
        Attack(group, "SIGTERM at the end, and the log", argv, changes=["o"]), result, before
    )
    raw = "\x1b[31m" in result.out + result.err
    yield Verdict(verdict.attack, "wrong", "an escape reaches the log") if raw else verdict


def wait_for(port: int) -> object:
    """The vector of the reference text, once the server is ready."""
    for _ in range(1200):
        with suppress(OSError):
            if b" 200 " in exchanged(port, get("/ready"))[:16]:
                return vector(port)
        time.sleep(0.1)
    raise RuntimeError("the server did not start")


def unharmed(verdict: Verdict, port: int, reference: object) -> Verdict:
    """The verdict, unless the server died or gives other vectors now."""
    try:
        now = vector(port)
    except TimeoutError:
        return verdict._replace(outcome="hang", why="no answer to the next request")
    except OSError as error:
        return verdict._replace(outcome="traceback", why=f"the server is gone: {error}")
    if now != reference:
        return verdict._replace(outcome="wrong", why=f"the next vector differs: {str(now)[:99]}")
    return verdict


def _idle(port: int) -> None:
    connections = [socket.create_connection(("127.0.0.1", port), 5) for _ in range(CONNECTIONS)]
    for connection in connections:
        connection.sendall(b"GET /health HTTP/1.1\r\nHo")
    time.sleep(0.2)
    for connection in connections:
        connection.close()


def _leaving(port: int) -> None:
    large = post("/api/embed", json.dumps({"texts": ["oil fell " * 500] * 20}).encode())
    for _ in range(CONNECTIONS // 2):
        with socket.create_connection(("127.0.0.1", port), 5) as connection:
            connection.sendall(large)
            # Close with a reset: nobody will read the answer.
            linger = struct.pack("ii", 1, 0)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)


def _at_once(port: int) -> None:
    large = post("/api/embed", json.dumps({"texts": ["oil fell " * 100] * 50}).encode())

    def ask() -> None:
        with suppress(OSError):
            exchanged(port, large)

    threads = [threading.Thread(target=ask) for _ in range(CONNECTIONS // 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


CROWDS: dict[str, Callable[[int], None]] = {
    f"{CONNECTIONS} connections with half a head": _idle,
    f"{CONNECTIONS // 2} clients that leave": _leaving,
    f"{CONNECTIONS // 2} large requests at once": _at_once,
}


# A server of downloads.


def zipped(entries: Mapping[str, bytes]) -> bytes:
    """A .zip file with these entries, whatever their names are."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in entries.items():
            archive.writestr(name, content)
    return stream.getvalue()


def tarred(*members: tuple[tarfile.TarInfo, bytes]) -> bytes:
    """A .tar.gz file with these members."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as archive:
        for member, content in members:
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return stream.getvalue()


def member(name: str, kind: bytes = tarfile.REGTYPE, target: str = "") -> tarfile.TarInfo:
    """An entry of a .tar file."""
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


def archives(model: Path) -> dict[str, bytes]:
    """Archives by path, good and hostile."""
    files = {path.name: path.read_bytes() for path in model.iterdir() if path.is_file()}
    good = zipped(files)
    return {
        "/good.zip": good,
        "/cut.zip": good[: len(good) // 2],
        "/empty.zip": b"",
        "/zeros.zip": bytes(5000),
        "/page.zip": b"<!doctype html><title>Sign in</title>",
        "/nothing.zip": zipped({}),
        "/climbs.zip": zipped({**files, "../../../README.md": b"overwritten"}),
        "/absolute.zip": zipped({**files, "/tmp/elmo-was-here": b"overwritten"}),
        "/windows.zip": zipped({**files, "..\\..\\README.md": b"overwritten"}),
        "/twice.zip": zipped({"a/config.json": b"{}", "b/config.json": b"{}"}),
        "/bomb.zip": zipped({**files, "big": bytes(1 << 28)}),
        "/many.zip": zipped({**files, **{f"f{number}": b"" for number in range(20_000)}}),
        "/long.zip": zipped({**files, "n" * 5000: b""}),
        "/escape.zip": zipped({"\x1b[31mred/config.json": b"{}"}),
        "/pickle.zip": zipped({"pytorch_model.bin": b"\x80\x04cos\nsystem\n(S'id'\ntR."}),
        "/link.tar.gz": tarred((member("m", tarfile.SYMTYPE, "../../../README.md"), b"")),
        "/hardlink.tar.gz": tarred((member("m", tarfile.LNKTYPE, "/etc/passwd"), b"")),
        "/device.tar.gz": tarred((member("config.json", tarfile.CHRTYPE), b"")),
        "/pipe.tar.gz": tarred((member("config.json", tarfile.FIFOTYPE), b"")),
        "/climbs.tar.gz": tarred((member("../../../README.md"), b"overwritten")),
        "/text.txt": b"oil prices fell .\n" * 40,
        "/latin.txt": "café\n".encode("latin-1") * 9,
        "/empty.txt": b"",
    }


BEHAVIOURS = (
    "403", "404", "429", "500", "503", "loop", "to-a-file", "to-nowhere", "no-http", "no-length",
    "negative-length", "huge-length", "too-short", "stalls", "endless", "gzip", "long-header",
)  # fmt: skip


def answer_downloads(files: Mapping[str, bytes]) -> tuple[int, int]:
    """Start a process that serves files, well or as their path says; its id and port."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            how, _, name = self.path.removeprefix("/").partition("/")
            if how not in BEHAVIOURS:
                how, name = "", self.path.removeprefix("/")
            content = files.get(f"/{name}")
            if how == "no-http":
                self.wfile.write(b"\x00\x01\x02 hello\r\n\r\n")
                return
            if how.isdigit() or content is None:
                self.send_error(int(how) if how else 404)
                return
            if how in ("loop", "to-a-file", "to-nowhere"):
                self.send_response(302)
                places = {"loop": self.path, "to-a-file": "file:///etc/passwd",
                          "to-nowhere": "http://127.0.0.1:1/x.zip"}  # fmt: skip
                self.send_header("Location", places[how])
                self.end_headers()
                return
            self.send_response(200)
            length = {"negative-length": -5, "huge-length": 10**18, "too-short": len(content) + 99}
            if how not in ("no-length", "endless"):
                self.send_header("Content-Length", str(length.get(how, len(content))))
            if how == "gzip":
                self.send_header("Content-Encoding", "gzip")
            if how == "long-header":
                self.send_header("X", "a" * 100_000)
            self.end_headers()
            if how == "stalls":
                self.wfile.write(content[:10])
                time.sleep(20)
                return
            with suppress(OSError):
                self.wfile.write(content)
                for _ in range(2000 if how == "endless" else 0):
                    self.wfile.write(bytes(1 << 16))

        def log_message(self, format: str, *args: Any) -> None:
            pass

    listener = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    port = int(listener.server_address[1])
    child = os.fork()
    if child == 0:
        try:
            listener.serve_forever()
        finally:
            os._exit(0)
    listener.server_close()
    return child, port


def downloads(original: Path, workspace: Path) -> Iterator[Verdict]:
    """Verdicts of models and texts from a hostile server."""
    from elmo.registry import cache, catalogue, download

    download.PAUSE, download.TIMEOUT = 0.01, 2.0
    cache.LARGEST_DOWNLOAD = 64 << 20
    group, files = "downloads", archives(original / "m")
    child, port = answer_downloads(files)
    address = f"http://127.0.0.1:{port}"
    # A name too long for a file is of no file that a model needs; texts need another package.
    expect = {"/good.zip": "right", "/long.zip": "right"}
    models = workspace / "models.json"
    entry = {"name": "x/good", "language": "xx", "language_name": "Klingon", "format": "bilm-tf"}
    wrong = {"sha256": "0" * 64}
    listed = [
        {**entry, "name": f"x/{name}", "files": {"archive": [f"{address}{path}"]}, **more}
        for name, path, more in (
            ("good", "/good.zip", {}),
            ("dead", "/404/good.zip", {}),
            ("cut", "/too-short/good.zip", {}),
            ("other", "/good.zip", {"checksums": {"archive": wrong}}),
            ("climbs", "/climbs.zip", {}),
        )
    ]
    models.write_text(json.dumps(listed))
    catalogue.MODELS = models
    catalogue.public_models.cache_clear()

    def attacks() -> Iterator[Attack]:
        local = {"no_proxy": "127.0.0.1", "NO_PROXY": "127.0.0.1"}

        def one(name: str, *argv: str, expect: str = "", **more: str) -> Attack:
            return Attack(group, name, argv, environment={**local, **more}, expect=expect)

        for path in files:
            if path.endswith(".txt"):
                for command in ("embed", "check"):
                    more = ("--model", "m", "--out", "o.npz") if command == "embed" else ()
                    yield one(f"elmo {command} {path}", command, address + path, *more,
                              expect=expect.get(path, ""))  # fmt: skip
                continue
            for command in ("info", "score"):
                argv = ["info", address + path]
                if command == "score":
                    argv = ["score", "oil", "--model", address + path]
                yield one(f"elmo {command} {path}", *argv, expect=expect.get(path, "clear error"))
        for how in BEHAVIOURS:
            fine = how in ("no-length",)
            for command, argv in {
                "info": ["info", f"{address}/{how}/good.zip"],
                "embed": ["embed", f"{address}/{how}/text.txt", "--model", "m", "--out", "o.npz"],
            }.items():
                yield one(
                    f"{how}: elmo {command}",
                    *argv,
                    expect="right" if fine and command == "info" else "",
                )
        for address_ in ("http://", "http://[", "http://127.0.0.1:1/x.zip", "https://127.0.0.1:99999/x.zip",
                         f"{address}/x", f"https://127.0.0.1:{port}/good.zip", "file:///etc/passwd",
                         "http://\x1b[31m/x.zip", "http://a b/x.zip", "http://127.0.0.1:x/m.zip",
                         "http://" + "a" * 5000 + "/x.zip", "s3://nothing/x", "ftp://127.0.0.1/x.zip",
                         "hf:", "hf:a", "hf:../..", "hf:a/b@../x", "hf:\udcff/x"):  # fmt: skip
            for command in (["info", address_], ["check", address_], ["download", address_]):
                readable = address_ == "file:///etc/passwd" and command[0] == "check"
                must = "" if readable else "clear error"
                title = f"elmo {command[0]} {address_[:40]!r}"
                yield one(title, *command, expect=must, HF_ENDPOINT=address)
        yield one("a proxy that is none: elmo info", "info", f"{address}/good.zip", no_proxy="",
                  NO_PROXY="", http_proxy="http://127.0.0.1:1", expect="clear error")  # fmt: skip
        for proxy in ("x", "http://", "socks5://127.0.0.1:1", "http://[::"):
            yield one(f"http_proxy={proxy}: elmo info", "info", f"{address}/good.zip",
                      no_proxy="", NO_PROXY="", http_proxy=proxy)  # fmt: skip
        names = ("x/good", "x/dead", "x/cut", "x/other", "x/climbs", "nothing", "", "../m", "m",
                 "x/\x1b[31m", "\udcff", "a" * 5000, "/etc/passwd", "~nosuchuser/x")  # fmt: skip
        for name in names:
            for flags in ([], ["--fresh"], ["--forget"], ["--json"]):
                title = f"elmo download {name[:30]!r} {' '.join(flags)}"
                yield one(title, "download", name, *flags,
                          expect="" if name == "x/good" else "clear error")  # fmt: skip
            yield one(f"elmo models show {name[:30]!r}", "models", "show", name)
        for setting in ("ELMO_OFFLINE", "HF_HUB_OFFLINE"):
            for value in ("1", "x", ""):
                argv = ("info", f"{address}/good.zip")
                yield one(f"{setting}={value}: elmo info", *argv, **{setting: value})
        for cache_ in ("README.md", "/proc/nowhere", "a" * 300, "\udcff"):
            for argv in (("download", "x/dead"), ("info", f"{address}/good.zip")):
                yield one(f"ELMO_CACHE={cache_[:20]!r}: elmo {argv[0]}", *argv, ELMO_CACHE=cache_)

    try:
        for attack in attacks():
            yield carried_out(attack, original, workspace)
    finally:
        os.kill(child, signal.SIGTERM)
        os.waitpid(child, 0)


def carried_out(
    attack: Attack,
    original: Path,
    workspace: Path,
    judged: Callable[[Result], str | None] | None = None,
) -> Verdict:
    """Run an attack in a copy of the world; escapes must not reach the terminal."""
    folder = copied(original, workspace / "w")
    attack.prepare(folder)
    before = contents(folder)
    result = run(attack.argv, folder, environment=attack.environment)
    verdict = judge(attack, result, before)
    if "\x1b[31m" in result.out + result.err:
        return verdict._replace(outcome="wrong", why="an escape reaches the terminal")
    if Path("/tmp/elmo-was-here").exists():
        return verdict._replace(outcome="lost", why="a file outside of the folder was written")
    return verdict


# Locales need interpreters of their own: the encoding of names is chosen when Python starts.

LOCALES: dict[str, dict[str, str]] = {
    "C, not coerced": {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    "LANG=C": {"LANG": "C"},
    "POSIX, UTF-8 mode": {"LC_ALL": "POSIX", "PYTHONUTF8": "1"},
    "a locale that is not installed": {"LC_ALL": "tr_TR.ISO-8859-9", "PYTHONUTF8": "0"},
}


def locales(original: Path, workspace: Path) -> Iterator[Verdict]:
    """Verdicts of commands with names, texts and labels beyond ASCII, in other locales."""
    group, name = "locales", "naïve 雨"
    rows = "".join(f"{'été' if n % 2 else '雨'},oil bank {n % 3} team\n" for n in range(24))
    commands: dict[str, Sequence[str]] = {
        "embed": ["embed", f"{name}.txt", "--model", "m", "--out", f"{name}.npz"],
        "check": ["check", f"{name}.txt", "--no-estimate"],
        "score": ["score", "naïve 雨 oil", "--model", "m", "--json"],
        "classify train": ["classify", "train", f"{name}.csv", "--model", "m", "--out", name,
                           "--parts", "ngrams"],
        "classify predict": ["classify", "predict", "naïve 雨 oil", "--model", "c", "--json"],
        "tag predict": ["tag", "predict", "--files", f"{name}.txt", "--model", "t"],
        "info": ["info", f"{name} nowhere"],
    }  # fmt: skip

    def result_of(argv: Sequence[str], folder: Path, variables: Mapping[str, str]) -> Result:
        kept = {key: os.environ[key] for key in ("PATH", "PYTHONPATH") if key in os.environ}
        kept |= {"ELMO_CACHE": str(folder / "cache"), "HOME": str(folder)}
        done = subprocess.run(
            [sys.executable, "-m", "elmo", *(word.encode() for word in argv)],
            cwd=folder, env=kept | dict(variables), capture_output=True, check=False, timeout=300,
        )  # fmt: skip
        out, err = (text.decode("utf-8", "replace") for text in (done.stdout, done.stderr))
        return Result(done.returncode, out, err, 0.0, folder)

    for command, argv in commands.items():
        expected: dict[str, str] = {}
        said = ""
        for locale, variables in {"UTF-8": {"LC_ALL": "C.UTF-8"}, **LOCALES}.items():
            folder = copied(original, workspace / "w")
            (folder / f"{name}.txt").write_bytes((folder / "corpus.txt").read_bytes())
            (folder / f"{name}.csv").write_text("label,text\n" + rows, encoding="utf-8")
            before = contents(folder)
            result = result_of(argv, folder, variables)
            expect = "clear error" if command == "info" else "right"
            verdict = judge(
                Attack(group, f"{locale}: elmo {command}", argv, expect=expect), result, before
            )
            written = {
                path: digest for path, digest in contents(folder).items()
                if path.endswith((".npz", ".safetensors", "classifier.json")) and path not in before
            }  # fmt: skip
            if locale == "UTF-8":
                expected, said = written, result.out
            elif written != expected:
                verdict = verdict._replace(outcome="wrong", why="other bytes than in UTF-8")
            elif "--json" in argv and json.loads(result.out or "0") != json.loads(said):
                verdict = verdict._replace(outcome="wrong", why=f"prints {result.out[:200]!r}")
            yield verdict


def loopback(original: Path, workspace: Path) -> Iterator[Verdict]:
    """All of this file."""
    yield from served(original, workspace)
    yield from downloads(original, workspace)
    yield from locales(original, workspace)
