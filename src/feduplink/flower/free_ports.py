"""Ports of this machine for processes that are about to start."""

from __future__ import annotations

import contextlib
import random
import socket

HOST = "127.0.0.1"

# Below the range that systems give to outgoing connections, one of which could take a port between
# the moment it is found free and the moment a process listens on it.
_PORTS = range(20000, 32000)


def free_ports(count: int) -> list[int]:
    """Ports of this machine on which nobody listens."""
    with contextlib.ExitStack() as held:
        found: list[int] = []
        for port in random.SystemRandom().sample(_PORTS, len(_PORTS)):
            probe = held.enter_context(socket.socket())
            with contextlib.suppress(OSError):
                probe.bind((HOST, port))
                found.append(port)
            if len(found) == count:
                return found
    raise OSError(f"{count} free ports between {_PORTS.start} and {_PORTS.stop} were not found")
