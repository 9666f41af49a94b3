"""Workflow ``serve``: run the service on a socket until SIGTERM or SIGINT.

Importing this module imports neither PyTorch nor the extra ``serve``.
"""

from __future__ import annotations

import ipaddress
import json
import logging
import os
import signal
import socket
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from feduplink.errors import InputError
from feduplink.scenario import Scenario
from feduplink.serving.limits import (
    Limits,
    MaxBodyBytes,
    MaxChannels,
    MaxInFlight,
    MaxSeconds,
    MaxWorkers,
)
from feduplink.storage.files import read_limited
from feduplink.validation import import_extra
from feduplink.workflows.options import CommandLine, PolicyLike, Seed, workflow

if TYPE_CHECKING:
    from fastapi import FastAPI

    from feduplink.export import OnnxPolicy
    from feduplink.policies import PowerPolicy

#: Environment variable of the token.
TOKEN_VARIABLE = "FEDUPLINK_TOKEN"
MIN_TOKEN_LENGTH = 16
_MAX_TOKEN_FILE_BYTES = 1 << 12
#: Time after which an idle connection is closed, s; controllers reuse connections.
KEEP_ALIVE_S = 75
_ONNX = ".onnx"
_DEFAULTS = Limits()


@workflow
def serve(
    scenario: Scenario | None = None,
    policy: Annotated[
        PolicyLike,
        Field(
            description="pdx, package.module:Object, the directory of a training run, or an ONNX "
            "file of 'feduplink export', which loads fastest"
        ),
        CommandLine(metavar="NAME", type=str),
    ] = "pdx",
    *,
    host: Annotated[
        str,
        Field(description="Address to listen on; other than loopback addresses need a token"),
    ] = "127.0.0.1",
    port: Annotated[
        int, Field(ge=0, le=65_535, description="Port to listen on; 0: any free port")
    ] = 8000,
    token_file: Annotated[
        Path | None,
        Field(
            description="File with the bearer token that requests need (default: the environment "
            f"variable {TOKEN_VARIABLE})"
        ),
        CommandLine(metavar="FILE"),
    ] = None,
    max_body_bytes: MaxBodyBytes = _DEFAULTS.max_body_bytes,
    max_workers: MaxWorkers = _DEFAULTS.max_workers,
    max_channels: MaxChannels = _DEFAULTS.max_channels,
    max_seconds: MaxSeconds = _DEFAULTS.max_seconds,
    max_in_flight: MaxInFlight = _DEFAULTS.max_in_flight,
    seed: Seed = 0,
    on_start: Callable[[str], None] | None = None,
) -> None:
    """Serve transmit powers by HTTP.

    The playground is at ``/``. On SIGTERM or SIGINT the service completes the requests in flight
    and ends by that signal. Call this function in the main thread.

    Args:
        scenario: scenario of the policy; None: the default scenario. Must be None for an ONNX file,
            which contains its scenario.
        policy: ONNX file, or a policy as for :func:`feduplink.make_policy`.
        host: address to listen on.
        port: port to listen on; 0: any free port.
        token_file: file with the bearer token; None: the environment variable ``FEDUPLINK_TOKEN``.
        max_body_bytes: maximum size of a request body, bytes.
        max_workers: maximum number of workers of a channel.
        max_channels: maximum number of channels of a request.
        max_seconds: maximum time from the header of a request to its response, s.
        max_in_flight: maximum number of requests in flight.
        seed: seed for the tuning of the policy.
        on_start: callback with a description of the service, including its address, once it
            listens.

    Raises:
        InputError: if an argument is not accepted, or the address is not available.
    """
    import_extra("feduplink.serving.app", "serve")
    from feduplink.serving.app import create_app
    from feduplink.serving.playground import playground_router

    limits = Limits(
        max_body_bytes=max_body_bytes,
        max_workers=max_workers,
        max_channels=max_channels,
        max_seconds=max_seconds,
        max_in_flight=max_in_flight,
    )
    token = find_token(token_file)
    with bind_socket(host, port, has_token=token is not None) as bound:
        exported, trained = _load_policy(policy, scenario, seed)
        try:
            routers = [playground_router(exported.scenario, trained)]
            page = "with the playground at /"
        except InputError as refusal:
            routers, page = [], f"without the playground: {refusal}"
        workers = exported.fixed_workers or "any number of"
        title = f"{exported.metadata['policy']} for {workers} workers"
        app = create_app(exported, limits=limits, token=token, routers=routers)

        def started(address: str) -> None:
            if on_start is not None:
                on_start(f"{title} on {address}\n{page}")

        listen(app, bound, timeout_s=max_seconds, on_start=started)


def _load_policy(
    what: PolicyLike, scenario: Scenario | None, seed: int
) -> tuple[OnnxPolicy, list[PowerPolicy]]:
    """Load a policy as ONNX; other policies are exported to a temporary ONNX file.

    Returns:
        The exported policy, and a list with the policy itself if it is trained, for the playground.
    """
    from feduplink.export import OnnxPolicy, export_onnx
    from feduplink.policies import NeuralPolicy, make_policy

    if isinstance(what, str | os.PathLike) and Path(what).suffix == _ONNX:
        if scenario is not None:
            raise InputError(
                f"scenario must not be given with an ONNX file; {what} contains its scenario."
            )
        return OnnxPolicy(what), []
    policy = make_policy(what, scenario or Scenario(), seed=seed)
    with tempfile.TemporaryDirectory() as directory:
        exported = OnnxPolicy(export_onnx(policy, Path(directory, f"policy{_ONNX}")).file)
    return exported, [policy] if isinstance(policy, NeuralPolicy) else []


def find_token(file: Path | None) -> str | None:
    """Token in a file, or else in the environment.

    Args:
        file: file with the token; None: the environment variable ``FEDUPLINK_TOKEN``.

    Returns:
        The token; None if there is none.

    Raises:
        InputError: if the token is too short or not printable ASCII.
    """
    given = os.environ.get(TOKEN_VARIABLE)
    if file is not None:
        given = read_limited(file, "token", _MAX_TOKEN_FILE_BYTES).decode("utf-8", "replace")
    if given is None:
        return None
    token = given.strip()
    if len(token) < MIN_TOKEN_LENGTH or not token.isascii() or not token.isprintable():
        raise InputError(
            f"The token in {file or TOKEN_VARIABLE} must have at least {MIN_TOKEN_LENGTH} "
            "printable ASCII characters."
        )
    return token


def bind_socket(host: str, port: int, *, has_token: bool) -> socket.socket:
    """Bind a socket, without listening.

    Args:
        host: address; a loopback address unless there is a token.
        port: port; 0: any free port.
        has_token: whether requests need a token.

    Returns:
        The socket.

    Raises:
        InputError: if the address is not accepted or not available.
    """
    try:
        family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except (OSError, UnicodeError):
        raise InputError(f"host must be an address of this machine; got {host}.") from None
    if not has_token and not ipaddress.ip_address(address[0]).is_loopback:
        raise InputError(
            f"host {host} can be reached from other machines; accepted with a token by "
            f"--token-file or {TOKEN_VARIABLE}, or use 127.0.0.1."
        )
    bound = socket.socket(family, kind)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind(address)
    except OSError as error:
        bound.close()
        raise InputError(
            f"port {port} of {host} is not available ({error.strerror}); choose a free one."
        ) from None
    return bound


def listen(
    app: FastAPI, bound: socket.socket, *, timeout_s: float, on_start: Callable[[str], None]
) -> None:
    """Serve an application until SIGTERM or SIGINT, then end by that signal.

    Args:
        app: application.
        bound: bound socket.
        timeout_s: maximum time of a request, and hence of a graceful shutdown, s.
        on_start: callback with the address once the socket listens.
    """
    import uvicorn

    class Server(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            host, port, *_ = bound.getsockname()
            on_start(f"http://{f'[{host}]' if ':' in host else host}:{port}")

    config = uvicorn.Config(
        app,
        http="httptools",
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=int(timeout_s) + 1,
    )
    _log_to_stderr()
    # Default action, because supervisors expect SIGTERM to end the process by the signal.
    previous = signal.signal(signal.SIGTERM, signal.SIG_DFL)
    try:
        Server(config).run([bound])
    finally:
        signal.signal(signal.SIGTERM, previous)


class JsonFormatter(logging.Formatter):
    """Log formatter: a line of JSON with ``time``, ``level``, ``event`` and ``fields``."""

    def format(self, record: logging.LogRecord) -> str:
        """Format a record, without a line break."""
        entry: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            entry["traceback"] = self.formatException(record.exc_info)
        return json.dumps(entry)


def _log_to_stderr() -> None:
    """Log the service's and uvicorn's events to standard error as JSON."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter())
    for name in ("feduplink.serving", "uvicorn"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(logging.INFO)
