"""What stands between the network and the routes: who may ask, how slowly, and what is counted."""

from __future__ import annotations

import asyncio
import hmac
import os
import time
from collections.abc import Callable
from typing import Any

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    generate_latest,
)
from prometheus_client.multiprocess import MultiProcessCollector
from pydantic_core import to_json
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from elmo.serve.config import ServeConfig

HEADERS = {
    "content-security-policy": "; ".join(
        (
            "default-src 'none'",
            "script-src 'self'",
            "style-src 'self'",
            "img-src 'self' data: blob:",
            "connect-src 'self'",
            "worker-src 'self'",
            "base-uri 'none'",
            "form-action 'none'",
            "frame-ancestors 'none'",
        )
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
}
TITLES = {
    400: "Bad request",
    401: "Token missing or wrong",
    403: "Origin not allowed",
    404: "Not found",
    405: "Method not allowed",
    408: "Request too slow",
    413: "Request too large",
    422: "Request cannot be processed",
    429: "Too many requests",
    500: "Internal error",
    503: "Not ready",
    504: "Deadline passed",
}


def problem(path: str, status: int, message: str, *, param: str | None = None) -> Response:
    """An error in OpenAI's shape under /v1, as RFC 9457 says elsewhere."""
    if path.startswith("/v1/"):
        kind = "server_error" if status >= 500 else "invalid_request_error"
        kind = {401: "authentication_error", 429: "rate_limit_error"}.get(status, kind)
        code = {404: "model_not_found"}.get(status) if param == "model" else None
        error = {"message": message, "type": kind, "param": param, "code": code}
        return Response(to_json({"error": error}), status, media_type="application/json")
    body: dict[str, Any] = {"title": TITLES.get(status, "Error"), "status": status}
    body |= {"detail": message} | ({"param": param} if param else {})
    return Response(to_json(body), status, media_type="application/problem+json")


class SlowBodyError(HTTPException):
    """The body did not arrive in time. FastAPI lets HTTP errors pass while it reads a body."""

    def __init__(self, seconds: float) -> None:
        super().__init__(408, f"the request did not arrive within {seconds:g} s")


class Metrics:
    """Counters for Prometheus. With several processes, they add up through a shared folder."""

    def __init__(self, waiting: Callable[[], float]) -> None:
        self.registry = registry = CollectorRegistry()
        self.requests = Counter(
            "elmo_requests", "Requests by route and status.", ("route", "status"), registry=registry
        )
        self.seconds = Histogram(
            "elmo_request_seconds",
            "Time from the first byte to the end of the answer.",
            ("route",),
            registry=registry,
            buckets=(0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30),
        )
        self.batch_requests = Histogram(
            "elmo_batch_requests",
            "Requests computed together.",
            registry=registry,
            buckets=(1, 2, 4, 8, 16, 32, 64, 128, 256),
        )
        self.words = Counter("elmo_words", "Words computed.", registry=registry)
        self.compute = Counter("elmo_compute_seconds", "Time in torch.", registry=registry)
        gauge = Gauge(
            "elmo_queue_words",
            "Words that wait.",
            registry=registry,
            multiprocess_mode="livesum",
        )
        if "PROMETHEUS_MULTIPROC_DIR" not in os.environ:
            gauge.set_function(waiting)

    def observe(self, requests: int, words: int, seconds: float) -> None:
        """Count a batch."""
        self.batch_requests.observe(requests)
        self.words.inc(words)
        self.compute.inc(seconds)

    def page(self) -> Response:
        """What Prometheus reads."""
        registry = self.registry
        if "PROMETHEUS_MULTIPROC_DIR" in os.environ:
            registry = CollectorRegistry()
            MultiProcessCollector(registry)  # pyright: ignore[reportUnknownMemberType]
        return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)


class Guard:
    """ASGI middleware: token, origin, slow bodies, headers of every answer, metrics.

    Args:
        app: What is guarded.
        config: Hosts and origins allowed, seconds for a body.
        token: What clients send as a bearer token; none: everybody may ask.
        metrics: Where requests are counted.
        arriving: Told +1 when a body starts to be read and -1 when it is there.
    """

    def __init__(
        self,
        app: ASGIApp,
        config: ServeConfig,
        token: str | None,
        metrics: Metrics,
        arriving: Callable[[int], None],
    ) -> None:
        self.app, self.config, self.metrics = app, config, metrics
        self._token = None if token is None else token.encode()
        self._arriving = arriving

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started, status, path = time.monotonic(), 0, str(scope["path"])
        body = Body(receive, self.config.limits.body_seconds, self._arriving)

        async def send_marked(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(raw=message["headers"])
                for name, value in HEADERS.items():
                    headers[name] = value
                if not body.complete and status in (401, 403, 408, 413):
                    headers["connection"] = "close"  # the rest of the body is not read
                message["headers"] = headers.raw
            await send(message)

        scope["elmo.body"] = body
        refusal = self._refusal(scope, path)
        try:
            if refusal is not None:
                await refusal(scope, receive, send_marked)
                return
            if scope["method"] in ("POST", "PUT", "PATCH"):
                self._arriving(1)
                body.counted = True
            await self.app(scope, body.receive, send_marked)
        finally:
            body.done()
            route = getattr(scope.get("route"), "path", "other")
            self.metrics.requests.labels(route, str(status)).inc()
            self.metrics.seconds.labels(route).observe(time.monotonic() - started)

    def _refusal(self, scope: Scope, path: str) -> Response | None:
        headers = Headers(scope=scope)
        if scope["method"] not in ("GET", "HEAD", "OPTIONS"):
            origin = headers.get("origin")
            own = {f"http://{headers.get('host')}", f"https://{headers.get('host')}"}
            if origin is not None and origin not in own | set(self.config.allow_origin):
                return problem(
                    path, 403, "pages of other hosts may not call this server; see --allow-origin"
                )
        length = headers.get("content-length", "")
        if length.isdigit() and int(length) > self.config.limits.body_bytes:
            return problem(path, 413, f"at most {self.config.limits.body_bytes:,} bytes, please")
        private = path.startswith(("/v1/", "/api/")) or path in ("/metrics", "/openapi.json")
        if self._token is not None and private and scope["method"] != "OPTIONS":
            kind, _, given = headers.get("authorization", "").partition(" ")
            same = hmac.compare_digest(given.strip().encode("latin-1", "replace"), self._token)
            if kind.lower() != "bearer" or not same:
                answer = problem(path, 401, "send the token: Authorization: Bearer TOKEN")
                answer.headers["www-authenticate"] = "Bearer"
                return answer
        return None


class Body:
    """A request's body as it arrives, with a deadline for all of it."""

    def __init__(self, receive: Receive, seconds: float, arriving: Callable[[int], None]) -> None:
        self._receive, self._seconds = receive, seconds
        self._deadline = time.monotonic() + seconds
        self._arriving = arriving
        self.complete = False
        self.counted = False

    async def receive(self) -> Message:
        """The next message; once the body is there, the wait for a disconnect has no deadline."""
        if self.complete:
            return await self._receive()
        try:
            async with asyncio.timeout(max(0.0, self._deadline - time.monotonic())):
                message = await self._receive()
        except TimeoutError:
            raise SlowBodyError(self._seconds) from None
        self.complete = message["type"] != "http.request" or not message.get("more_body", False)
        return message

    def done(self) -> None:
        """Call when the request is queued or over: it is no longer arriving."""
        if self.counted:
            self.counted = False
            self._arriving(-1)
