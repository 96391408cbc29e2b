"""Settings of the server; apart, to be shown without FastAPI and torch."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated

from elmo.config import Count, NotNegative, Positive, Range

LOOPBACK = ("localhost", "127.0.0.1", "[::1]", "::1")


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What one client may ask for, and what the server holds at most."""

    body_bytes: Count = 2_000_000
    """Bytes of a request; more are answered 413."""
    texts: Count = 2048
    """Texts per request; more are answered 422."""
    words_per_text: Count = 10_000
    """Words per text; more are answered 422, or cut off with `truncate`."""
    words: Count = 65_536
    """Words per request; more are answered 422."""
    numbers: Count = 4_000_000
    """Numbers per answer; more are answered 422."""
    explained_words: Count = 128
    """Words of a text whose label is explained."""
    queue_words: Count = 262_144
    """Words that wait; more are answered 429 with Retry-After."""
    seconds: Positive = 30.0
    """Waiting and computing; longer requests are answered 504."""
    body_seconds: Positive = 10.0
    """For a request to arrive; slower ones are answered 408."""
    connections: Count = 512
    """Open connections; more are answered 503."""
    shutdown_seconds: NotNegative = 20.0
    """For running requests after SIGTERM."""


@dataclass(frozen=True, kw_only=True)
class ServeConfig:
    """What is served, to whom."""

    host: str = "127.0.0.1"
    """Address to listen on; another one than this machine's own needs a token."""
    port: Annotated[int, Range(0, 65_535)] = 8000
    """Port to listen on; 0: any free one."""
    workers: Annotated[int, Range(1, 64)] = 1
    """Processes, each with a copy of the models."""
    threads: Count = 1
    """Torch threads per process. With two on a busy machine of two cores, a sentence took 108 ms
    instead of 15."""
    device: str = "cpu"
    """cpu, cuda, cuda:1, …"""
    models: tuple[str, ...] = ()
    """NAME=FOLDER, or folders; the first is the default. Default: the shipped model."""
    classifier: str | None = None
    """Folder of a classifier. Default: the shipped one, if the model is the shipped one."""
    corpus: str | None = None
    """Texts, or an index of them, for the explorer. Default: generated news."""
    corpus_words: Count = 200_000
    """A larger corpus is sampled; `elmo index` makes larger indexes."""
    explorer: bool = True
    """Whether the page and its corpus are served."""
    hosts: tuple[str, ...] = ()
    """Names in the Host header that are accepted. Default: those of this machine if it listens on
    them only, else any."""
    allow_origin: tuple[str, ...] = ()
    """Web pages of other hosts that may call the server (CORS), such as https://example.org."""
    batch_words: Count = 8192
    """Words that are encoded together."""
    batch_wait_ms: NotNegative = 2.0
    """How long the oldest request waits for others, if others are arriving."""
    limits: Limits = Limits()
    """What a client may ask for."""

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can connect."""
        if self.host in LOOPBACK:
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def allowed_hosts(self) -> list[str]:
        """For the Host header: without it, any web page could read a server on this machine."""
        if self.hosts:
            return list(self.hosts)
        return [*LOOPBACK, self.host] if self.is_loopback else ["*"]

    def named_models(self) -> dict[str, str]:
        """Folders by name."""
        named: dict[str, str] = {}
        for spec in self.models:
            name, equals, path = spec.partition("=")
            if not equals:
                name, path = spec.rstrip("/").rpartition("/")[2] or spec, spec
            named[name] = path
        return named

    def problems(self) -> Iterable[str]:
        """Yield what is wrong with these settings."""
        if len(self.named_models()) != len(self.models):
            yield "models: two have the same name; name them NAME=FOLDER"
        for name, path in self.named_models().items():
            if not name or not path:
                yield f"models: expected NAME=FOLDER, got {name}={path}"
        for origin in self.allow_origin:
            if not origin.startswith(("http://", "https://")) or origin.count("/") != 2:
                yield f"allow_origin: expected such as https://example.org, got {origin!r}"
