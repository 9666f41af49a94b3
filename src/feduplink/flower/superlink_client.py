"""What the starter of a deployment asks of its SuperLink, through Flower 1.41's HTTP interfaces.

Flower's command line does the same (``flwr supernode register``, ``flwr run``, ``flwr list``,
``flwr log``), in a process of a second each; this asks at once. All that depends on the inside of
Flower is here.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import httpx
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_ssh_private_key
from flwr.cli.build import build_fab_from_files
from flwr.cli.cli_client_interceptor import CliClientHttpInterceptor
from flwr.common.serde import fab_to_proto, user_config_to_proto
from flwr.proto.control_pb2 import (
    ListNodesRequest,
    ListRunsRequest,
    RegisterNodeRequest,
    StartRunRequest,
    StopRunRequest,
    StreamLogsRequest,
)
from flwr.proto.fleet_pb2 import DeactivateNodeRequest
from flwr.supercore.control import ControlHttpClient
from flwr.supercore.fab import Fab
from flwr.supercore.interceptors import RuntimeVersionHttpInterceptor
from flwr.supercore.primitives.asymmetric import public_key_to_bytes
from flwr.supernode.fleet_http_client import FleetHttpClient
from flwr.supernode.node_auth_http_interceptor import NodeAuthHttpInterceptor

from feduplink.flower.certificates import NodeKey

#: Values that Flower's run configuration takes.
ConfigValue = bool | float | int | str


@dataclass(frozen=True)
class App:
    """A Flower app by the places of its two halves, ``module:attribute``.

    Attributes:
        server: the ServerApp.
        client: the ClientApp.
        config: its run configuration; a run may only override what is here.
        files: source files of the app by path in it; none if the halves are in installed packages.

    """

    server: str
    client: str
    config: Mapping[str, ConfigValue]
    files: Mapping[str, Path]

    def bundle(self) -> bytes:
        """The app as a Flower app bundle (FAB)."""
        config = "".join(f"{_toml(key)} = {_toml(value)}\n" for key, value in self.config.items())
        project = f"""
[project]
name = "feduplink-app"
version = "1.0.0"
description = ""
license = "Apache-2.0"
dependencies = []

[tool.flwr.app]
publisher = "feduplink"

[tool.flwr.app.components]
serverapp = {_toml(self.server)}
clientapp = {_toml(self.client)}

[tool.flwr.app.config]
{config}"""
        bundle, _ = build_fab_from_files({"pyproject.toml": project.encode(), **self.files})
        return bundle


@dataclass(frozen=True)
class RunStatus:
    """Where a run stands: ``pending``, ``starting``, ``running`` or ``finished``.

    Attributes:
        status: as above.
        outcome: of a finished one: ``completed``, ``failed`` or ``stopped``.
        details: why it failed.

    """

    status: str
    outcome: str
    details: str


@contextlib.contextmanager
def _answered() -> Iterator[None]:
    """A SuperLink that does not answer, or refuses, is an :class:`OSError` with a sentence."""
    try:
        yield
    except httpx.TransportError as failure:
        raise ConnectionError(f"The SuperLink does not answer: {failure}") from failure
    except httpx.HTTPStatusError as refusal:
        raise OSError(f"The SuperLink refuses: {refusal.response.text}") from refusal


class SuperLinkClient:
    """Speaks with the SuperLink at ``address``, which ``authority``'s certificate vouches for."""

    def __init__(self, address: str, authority: Path) -> None:
        self._address, self._authority = address, authority.read_bytes()
        with _loopback_without_proxy():
            self._control = ControlHttpClient.from_server_address(
                address,
                insecure=False,
                root_certificates=self._authority,
                interceptors=[
                    CliClientHttpInterceptor(),
                    RuntimeVersionHttpInterceptor(component_name="feduplink"),
                ],
            )

    def close(self) -> None:
        """Close the connection."""
        self._control.close()

    def answers(self) -> bool:
        """Whether the SuperLink is up."""
        try:
            self.online()
        except ConnectionError:
            return False
        return True

    @_answered()
    def register(self, key: NodeKey, name: str) -> int:
        """Make a SuperNode's public key known; the id that the node will have."""
        public = public_key_to_bytes(_private_key(key).public_key())
        return self._control.RegisterNode(RegisterNodeRequest(public_key=public, name=name)).node_id

    @_answered()
    def online(self) -> set[int]:
        """Ids of the SuperNodes that are connected, as far as the SuperLink knows."""
        nodes = self._control.ListNodes(ListNodesRequest()).nodes_info
        return {node.node_id for node in nodes if node.status == "online"}

    def declare_dead(self, node: int, key: NodeKey) -> None:
        """Say, in the name of a SuperNode that was killed, that it is gone.

        Else the SuperLink would take it as connected for up to 60 s (two heartbeats), and a run
        would wait for its reply.
        """
        private = _private_key(key)
        with (
            _loopback_without_proxy(),
            FleetHttpClient.from_server_address(
                self._address,
                insecure=False,
                root_certificates=self._authority,
                interceptors=[
                    RuntimeVersionHttpInterceptor(component_name="SuperNode"),
                    NodeAuthHttpInterceptor(private, private.public_key()),
                ],
            ) as fleet,
            _answered(),
            # It may be gone already: it ended in order, or 60 s are over.
            contextlib.suppress(httpx.HTTPStatusError),
        ):
            fleet.DeactivateNode(DeactivateNodeRequest(node_id=node))

    @_answered()
    def start_run(self, app: App, overrides: Mapping[str, ConfigValue]) -> int:
        """Submit a run; its id."""
        bundle = app.bundle()
        answer = self._control.StartRun(
            StartRunRequest(
                fab=fab_to_proto(Fab(hashlib.sha256(bundle).hexdigest(), bundle, {})),
                override_config=user_config_to_proto(dict(overrides)),
            )
        )
        return answer.run_id

    @_answered()
    def status(self, run: int) -> RunStatus:
        """Where a run stands."""
        found = self._control.ListRuns(ListRunsRequest(run_id=run)).run_dict[run].status
        return RunStatus(found.status, found.sub_status, found.details)

    @_answered()
    def stop_run(self, run: int) -> None:
        """End a run early."""
        self._control.StopRun(StopRunRequest(run_id=run))

    @_answered()
    def log(self, run: int) -> str:
        """What the ServerApp of a finished run has logged."""
        lines = self._control.StreamLogs(StreamLogsRequest(run_id=run, after_timestamp=0.0))
        return "".join(line.log_output for line in lines)


def _private_key(key: NodeKey) -> ec.EllipticCurvePrivateKey:
    found = load_ssh_private_key(key.private.read_bytes(), None)
    assert isinstance(found, ec.EllipticCurvePrivateKey)
    return found


def _toml(value: ConfigValue) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        escaped = "".join(
            f"\\u{ord(character):04x}" if ord(character) < 32 or character in '"\\' else character
            for character in value
        )
        return f'"{escaped}"'
    return repr(value)


@contextlib.contextmanager
def _loopback_without_proxy() -> Iterator[None]:
    """A client made in the block connects to this machine directly, whatever proxy is set."""
    before = {name: os.environ.get(name) for name in ("NO_PROXY", "no_proxy")}
    os.environ.update(without_proxy(os.environ))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def without_proxy(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables with which no proxy is used for this machine."""
    listed = environment.get("NO_PROXY") or environment.get("no_proxy")
    hosts = ",".join(filter(None, (listed, "127.0.0.1", "localhost")))
    return {"NO_PROXY": hosts, "no_proxy": hosts}
