"""Admission control: token, concurrent requests, time and size of every request; metrics."""

from __future__ import annotations

import asyncio
import hmac
import re
import time
from collections.abc import Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from feduplink.serving.limits import Limits
from feduplink.serving.request_log import log_answer

#: Told to anybody: whether the service lives; and the page, which asks its user for the token.
_WITHOUT_TOKEN = re.compile(r"/healthz|/|/playground/.+")
#: Who watches the service gets an answer also when it is too busy for others.
_WITHOUT_LIMIT = ("/healthz", "/metrics")
#: In log and metrics, for a client that left before its request was whole.
_CLIENT_GONE = 499
#: When to come again, s.
RETRY_AFTER_S = 1
#: Upper edges of the histograms, s: fine around 450 µs, the loop of a real-time controller.
BUCKETS_S = (1e-4, 2e-4, 3e-4, 4.5e-4, 1e-3, 2e-3, 3e-3, 5e-3, 0.01, 0.03, 0.1, 0.3, 1, 3, 10)


class Metrics:
    """Prometheus metrics of one application.

    Attributes:
        registry: collects the metrics below and those of the process (``process_*``).
        in_flight: number of requests under way, without those to /healthz and /metrics.
    """

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.in_flight = 0
        ProcessCollector(registry=self.registry)
        Gauge(
            "feduplink_requests_in_flight", "Requests under way.", registry=self.registry
        ).set_function(lambda: self.in_flight)
        self._requests = Counter(
            "feduplink_requests",
            "Responses by method, route and status.",
            ("method", "route", "status"),
            registry=self.registry,
        )
        self._request_seconds = Histogram(
            "feduplink_request_seconds",
            "Time from a request's header to its response.",
            registry=self.registry,
            buckets=BUCKETS_S,
        )
        self._channels = Counter(
            "feduplink_channels", "Channels whose powers were computed.", registry=self.registry
        )
        self._batch_seconds = Histogram(
            "feduplink_computation_seconds",
            "Time of a computation, one for all requests of a batch.",
            registry=self.registry,
            buckets=BUCKETS_S,
        )

    def observe_response(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count a response; ``route`` is the path template of a route, not the path requested."""
        self._requests.labels(method, route, status).inc()
        self._request_seconds.observe(seconds)

    def observe_batch(self, channels: int, seconds: float) -> None:
        """Count a computation of the powers of ``channels`` channels."""
        self._channels.inc(channels)
        self._batch_seconds.observe(seconds)


class Guard:
    """An ASGI application around another one.

    Attributes:
        app: the application behind it.
        limits: what a request may ask for.
        token: that a request has to bear, or None.
        metrics: of the application.
    """

    def __init__(self, app: ASGIApp, limits: Limits, token: str | None, metrics: Metrics) -> None:
        self.app = app
        self.limits = limits
        self.token = None if token is None else token.encode()
        self.metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        begun = time.perf_counter()
        status = 500

        async def noted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._admit(scope, receive, noted)
        except ClientDisconnect:
            status = _CLIENT_GONE
        finally:
            seconds = time.perf_counter() - begun
            route = getattr(scope.get("route"), "path", "other")
            self.metrics.observe_response(_known(scope["method"]), route, status, seconds)
            log_answer(scope["method"], scope["path"], status, seconds)

    async def _admit(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["path"]
        if not _WITHOUT_TOKEN.fullmatch(path) and not self._authorised(scope["headers"]):
            await _refusal(401, "Unauthorized.", {"WWW-Authenticate": "Bearer"})(
                scope, receive, send
            )
            return
        if path in _WITHOUT_LIMIT:
            await self.app(scope, receive, send)
            return
        if self.metrics.in_flight >= self.limits.max_in_flight:
            sentence = (
                f"Too many requests under way; accepted: {self.limits.max_in_flight} at once."
            )
            await _busy(sentence)(scope, receive, send)
            return
        self.metrics.in_flight += 1
        try:
            await self._limited(scope, receive, send)
        finally:
            self.metrics.in_flight -= 1

    async def _limited(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer within the limits of time and size."""
        whole_body = started = False
        left = self.limits.max_body_bytes
        too_large = HTTPException(413, f"body: too large; accepted: at most {left} bytes.")

        async def counted() -> Message:
            nonlocal left, whole_body
            message = await receive()
            left -= len(message.get("body", b""))
            whole_body = not message.get("more_body", False)
            if left < 0:
                raise too_large  # the application answers it as any other refusal
            return message

        async def watched(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            async with asyncio.timeout(self.limits.max_seconds):
                if _declared_length(scope["headers"]) > left:
                    await _refusal(413, too_large.detail)(scope, receive, watched)
                else:
                    await self.app(scope, counted, watched)
        except TimeoutError:
            if started:
                raise
            within = f"within {self.limits.max_seconds:g} s"
            late = (
                _busy(f"No answer {within}; accepted: fewer or smaller requests.")
                if whole_body
                else _refusal(408, f"body: incomplete; accepted: the whole of it {within}.")
            )
            await late(scope, receive, send)

    def _authorised(self, headers: Sequence[tuple[bytes, bytes]]) -> bool:
        if self.token is None:
            return True
        given = [value for name, value in headers if name == b"authorization"]
        scheme, _, token = given[0].partition(b" ") if len(given) == 1 else (b"", b"", b"")
        # In constant time, so that nobody finds the token character by character.
        return hmac.compare_digest(token, self.token) and scheme.lower() == b"bearer"


def _refusal(status: int, sentence: str, headers: dict[str, str] | None = None) -> Response:
    return JSONResponse({"detail": sentence}, status, headers)


def _busy(sentence: str) -> Response:
    return _refusal(503, sentence, {"Retry-After": str(RETRY_AFTER_S)})


def _declared_length(headers: Sequence[tuple[bytes, bytes]]) -> int:
    """Bytes that the header promises; 0 if it does not say."""
    lengths = [value for name, value in headers if name == b"content-length"]
    return max((int(length[:20]) for length in lengths if length.isdigit()), default=0)


def _known(method: str) -> str:
    """The method as a label; names that clients make up are all one."""
    return method if method in ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS") else "-"
