"""Admission control around the application: token, concurrency, time and size limits; metrics."""

from __future__ import annotations

import asyncio
import functools
import hmac
import logging
import re
import time
from collections.abc import Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from feduplink.serving.limits import Limits

LOGGER = logging.getLogger("feduplink.serving")
#: Maximum length of a path in the log, in characters.
MAX_LOGGED_PATH = 200
#: Paths that need no token: health, and the page of the playground, which asks for a token.
_PUBLIC_PATHS = re.compile(r"/healthz|/|/playground/.+")
#: Paths exempt from the limit on requests in flight, for monitoring.
_UNLIMITED_PATHS = ("/healthz", "/metrics")
#: Status in log and metrics if the client disconnected before its request was complete.
_CLIENT_CLOSED_REQUEST = 499
#: Value of the Retry-After header, in seconds.
RETRY_AFTER_S = 1
#: Upper edges of the histograms, s: fine around 450 µs, the interval of a real-time controller.
BUCKETS_S = (1e-4, 2e-4, 3e-4, 4.5e-4, 1e-3, 2e-3, 3e-3, 5e-3, 0.01, 0.03, 0.1, 0.3, 1, 3, 10)
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


class Metrics:
    """Prometheus metrics of one application.

    Attributes:
        registry: registry of the metrics of the service and of the process (``process_*``).
        in_flight: number of requests in flight, without those to /healthz and /metrics.
    """

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.in_flight = 0
        ProcessCollector(registry=self.registry)
        Gauge(
            "feduplink_requests_in_flight", "Requests in flight.", registry=self.registry
        ).set_function(lambda: self.in_flight)
        requests = Counter(
            "feduplink_requests",
            "Responses by method, route and status.",
            ("method", "route", "status"),
            registry=self.registry,
        )
        self._responses = functools.cache(requests.labels)
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
        """Record a response and its time, s; ``route`` is the template of the route."""
        self._responses(method, route, status).inc()
        self._request_seconds.observe(seconds)

    def observe_batch(self, channels: int, seconds: float) -> None:
        """Record a computation for ``channels`` channels and its time, s."""
        self._channels.inc(channels)
        self._batch_seconds.observe(seconds)


class Guard:
    """ASGI middleware that authorises, limits, logs and counts requests.

    Args:
        app: application to protect.
        limits: limits of requests.
        token: bearer token that requests need; None: no token is required.
        metrics: metrics of the application.
    """

    def __init__(self, app: ASGIApp, limits: Limits, token: str | None, metrics: Metrics) -> None:
        self.app = app
        self.limits = limits
        self.token = None if token is None else token.encode()
        self.metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        start = time.perf_counter()
        status = 500

        async def send_and_note_status(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._handler(scope)(scope, receive, send_and_note_status)
        except ClientDisconnect:
            status = _CLIENT_CLOSED_REQUEST
        finally:
            seconds = time.perf_counter() - start
            method = scope["method"] if scope["method"] in _METHODS else "-"
            route = getattr(scope.get("route"), "path", "other")
            self.metrics.observe_response(method, route, status, seconds)
            fields = {
                "method": scope["method"],
                "path": scope["path"][:MAX_LOGGED_PATH],
                "status": status,
                "ms": round(1e3 * seconds, 3),
            }
            LOGGER.info("request", extra={"fields": fields})

    def _handler(self, scope: Scope) -> ASGIApp:
        """The application, or an error response for a request that is not admitted."""
        path = scope["path"]
        if not _PUBLIC_PATHS.fullmatch(path) and not self._is_authorised(scope["headers"]):
            return _refusal(401, "Unauthorized.", {"WWW-Authenticate": "Bearer"})
        if path in _UNLIMITED_PATHS:
            return self.app
        if self.metrics.in_flight >= self.limits.max_in_flight:
            return _unavailable(
                f"The service handles at most {self.limits.max_in_flight} requests at a time; "
                f"retry after {RETRY_AFTER_S} s."
            )
        return self._serve_within_limits

    async def _serve_within_limits(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request within the limits of time and body size."""
        max_bytes, received_bytes, is_body_complete = self.limits.max_body_bytes, 0, False

        async def receive_and_count() -> Message:
            nonlocal received_bytes, is_body_complete
            message = await receive()
            received_bytes += len(message.get("body", b""))
            is_body_complete = not message.get("more_body", False)
            if received_bytes > max_bytes:  # the application's exception handler responds
                raise HTTPException(413, f"The body must have at most {max_bytes} bytes.")
            return message

        self.metrics.in_flight += 1
        try:
            async with asyncio.timeout(self.limits.max_seconds):
                await self.app(scope, receive_and_count, send)
        except TimeoutError:
            limit = f"{self.limits.max_seconds:g} s"
            response = (
                _unavailable(f"No response within {limit}; send fewer or smaller requests.")
                if is_body_complete
                else _refusal(408, f"The body must arrive within {limit}.")
            )
            await response(scope, receive, send)
        finally:
            self.metrics.in_flight -= 1

    def _is_authorised(self, headers: Sequence[tuple[bytes, bytes]]) -> bool:
        """Whether the headers contain the bearer token, if one is required."""
        if self.token is None:
            return True
        given = [value for name, value in headers if name == b"authorization"]
        scheme, _, token = given[0].partition(b" ") if len(given) == 1 else (b"", b"", b"")
        # Comparison in constant time prevents guessing the token character by character.
        return hmac.compare_digest(token, self.token) and scheme.lower() == b"bearer"


def _refusal(status: int, detail: str, headers: dict[str, str] | None = None) -> Response:
    """Error response."""
    return JSONResponse({"detail": detail}, status, headers)


def _unavailable(detail: str) -> Response:
    """Error response of status 503."""
    return _refusal(503, detail, {"Retry-After": str(RETRY_AFTER_S)})
