"""The service on a socket, until it is told to stop."""

from __future__ import annotations

import asyncio
import ipaddress
import os
import socket
from collections.abc import Callable
from pathlib import Path

import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from feduplink.errors import InputError
from feduplink.serving.limits import Limits
from feduplink.serving.request_log import log, log_to_stderr
from feduplink.storage.files import read_limited

#: Holds the token where no file does.
TOKEN_VARIABLE = "FEDUPLINK_TOKEN"
_SHORTEST_TOKEN = 16
_LONGEST_TOKEN_FILE = 1 << 12

#: How long a connection may be idle, s: a controller asks again over the one it has.
_KEEP_ALIVE_S = 75
#: On stopping, how long to wait for what clients have sent over idle connections, s.
_QUIET_S = 0.5


def find_token(file: Path | None) -> str | None:
    """The token of a file, or else of the environment, or None."""
    given = os.environ.get(TOKEN_VARIABLE)
    if file is not None:
        given = read_limited(file, "token", _LONGEST_TOKEN_FILE).decode("utf-8", "replace")
    if given is None:
        return None
    token = given.strip()
    if len(token) < _SHORTEST_TOKEN or not token.isascii() or not token.isprintable():
        raise InputError(
            f"token: {file or TOKEN_VARIABLE} holds none; accepted: {_SHORTEST_TOKEN} or more "
            "printable ASCII characters."
        )
    return token


def bound_socket(host: str, port: int, *, token: str | None) -> socket.socket:
    """A socket that has the address, but does not listen yet.

    Without a token only an address that nobody else reaches is accepted.
    """
    try:
        family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except (OSError, UnicodeError):
        raise InputError(
            f"host: {host} is not known; accepted: an address of this machine."
        ) from None
    if token is None and not ipaddress.ip_address(address[0]).is_loopback:
        raise InputError(
            f"host: {host} can be reached from other machines; accepted: 127.0.0.1, or a token by "
            f"--token-file or {TOKEN_VARIABLE}."
        )
    bound = socket.socket(family, kind)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind(address)
    except OSError as error:
        bound.close()
        raise InputError(
            f"port: {host} port {port} cannot be had ({error.strerror}); accepted: a free one."
        ) from None
    return bound


def listen(
    app: FastAPI, bound: socket.socket, limits: Limits, listening: Callable[[str], None]
) -> None:
    """Serve until SIGTERM or SIGINT, then answer what was asked and end by that signal.

    Args:
        app: the service.
        bound: where to listen.
        limits: that the service keeps.
        listening: told the address once it listens.

    """
    config = uvicorn.Config(
        app,
        http="httptools",
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_keep_alive=_KEEP_ALIVE_S,
        timeout_graceful_shutdown=int(limits.max_seconds) + 1,
    )
    log_to_stderr()
    _Server(config, listening).run([bound])


class _Server(uvicorn.Server):
    """Says when it listens, and stops only when clients have nothing under way."""

    def __init__(self, config: uvicorn.Config, listening: Callable[[str], None]) -> None:
        super().__init__(config)
        self._listening = listening

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for bound in sockets or []:
            host, port, *_ = bound.getsockname()
            address = f"http://{f'[{host}]' if ':' in host else host}:{port}"
            log("listening", address=address)
            self._listening(address)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Close every connection after its next answer, and idle ones when all is quiet.

        uvicorn alone closes idle connections at once, also those whose next request has been sent
        already but not been read.
        """
        log("stopping", connections=len(self.server_state.connections))
        for server in self.servers:
            server.close()
        state = self.server_state
        state.default_headers = [*state.default_headers, (b"connection", b"close")]
        for connection in list(state.connections):
            if not isinstance(connection, HttpToolsProtocol) or connection.cycle is None:
                continue
            if not connection.cycle.response_complete:
                connection.cycle.default_headers = state.default_headers
                connection.shutdown()  # closed after the answer that is under way
        loop = asyncio.get_running_loop()
        end = loop.time() + _QUIET_S
        while state.connections and loop.time() < end:
            await asyncio.sleep(0.02)
        await super().shutdown(sockets)
        log("stopped")
