"""Runs the ClientApps of all SuperNodes on this machine, each in a process of its own.

Flower would start a Python per SuperNode and round, which imports PyTorch, seconds each. In
Flower's isolation mode ``process`` whoever has the secret may fetch a SuperNode's work and run it;
this does so for all of them, in forks of one process that has imported everything. At most as many
as the machine has cores run at a time.

``python -m feduplink.flower.clientapp_executor SECRET_FILE MODULES ADDRESS...``
"""

from __future__ import annotations

import functools
import importlib
import os
import signal
import sys
import time
import traceback
from pathlib import Path
from typing import NoReturn

import httpx
from flwr.proto.runtime_pb2 import AcquireTaskRequest
from flwr.supercore.constant import TaskType
from flwr.supercore.inflatable.inflatable_utils import pull_and_inflate_object_from_tree
from flwr.supercore.interceptors import (
    RuntimeVersionHttpInterceptor,
    SuperExecAuthHttpInterceptor,
)
from flwr.supercore.runtime import RuntimeHttpClient
from flwr.supernode.runtime import run_clientapp as clientapp

#: Between two looks at every SuperNode, s: a look costs both sides some milliseconds, so with many
#: SuperNodes there is more time between them.
_LOOK_EVERY_S = 0.1
_LOOK_EVERY_S_PER_NODE = 0.02

#: A message whose ServerApp was killed while it sent it never comes whole; Flower would wait for it
#: for more than an hour, and the node do nothing else.
_WHOLE_WITHIN_S = 60.0

_ACQUIRE = "/flwr.proto.Runtime/AcquireTask"


class _NodeWork:
    """The ClientApps of one SuperNode, one at a time."""

    def __init__(self, address: str, secret: bytes) -> None:
        self._address = address
        self._running: int | None = None
        self._client = RuntimeHttpClient.from_server_address(
            address,
            insecure=True,  # never leaves this machine
            root_certificates=None,
            interceptors=[
                RuntimeVersionHttpInterceptor(component_name="SuperExec"),
                SuperExecAuthHttpInterceptor(master_secret=secret, protected_methods={_ACQUIRE}),
            ],
        )

    def busy(self) -> bool:
        """Whether its ClientApp runs; reaps one that has ended."""
        if self._running is not None and os.waitpid(self._running, os.WNOHANG)[0]:
            self._running = None
        return self._running is not None

    def look(self, *, accept: bool) -> None:
        """Fetch and begin its work, if it has some; a dead SuperNode's work is ended."""
        try:
            # Without a type there is no task to hand out: then it only shows that it lives.
            types = [TaskType.CLIENT_APP] if accept else []
            answer = self._client.AcquireTask(AcquireTaskRequest(supported_task_types=types))
        except httpx.ConnectError:
            if self._running is not None:
                os.kill(self._running, signal.SIGKILL)
            return
        except httpx.TransportError:
            return  # a SuperNode that is busy, or that the next look finds dead
        if answer.token:
            self._running = os.fork()
            if self._running == 0:
                _run(self._address, answer.token)


def _run(address: str, token: str) -> NoReturn:
    """Run a ClientApp in this process, which is a fork, and end it."""
    status = 1
    # Flower unpacks the app there; two nodes at once would collide.
    os.environ["FLWR_HOME"] = str(Path(os.environ["FLWR_HOME"], address.replace(":", "-")))
    try:
        clientapp.run_clientapp(
            runtime_api_address=address, token=token, insecure=True, parent_pid=os.getppid()
        )
    except SystemExit as ended:
        status = int(ended.code or 0)
    except Exception:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def main(secret_file: str, modules: str, addresses: list[str]) -> NoReturn:
    """Import ``modules`` (separated by commas), then serve the SuperNodes until killed."""
    for module in filter(None, modules.split(",")):
        importlib.import_module(module)
    vars(clientapp)["pull_and_inflate_object_from_tree"] = functools.partial(
        pull_and_inflate_object_from_tree, max_time=_WHOLE_WITHIN_S
    )
    secret = Path(secret_file).read_bytes()
    nodes = [_NodeWork(address, secret) for address in addresses]
    cores = os.cpu_count() or 1
    pause_s = max(_LOOK_EVERY_S, _LOOK_EVERY_S_PER_NODE * len(nodes))
    while True:
        for node in nodes:
            running = sum(other.busy() for other in nodes)
            node.look(accept=running < cores and not node.busy())
        time.sleep(pause_s)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
