"""The service as a process: signals, overload and tokens over real sockets."""

from __future__ import annotations

import contextlib
import http.client
import json
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from feduplink import GraphPolicy, Scenario, save_policy
from feduplink.errors import InputError
from feduplink.serving import serve
from feduplink.serving.listening import JsonFormatter

from .conftest import TOKEN, channels, powers_of

PAGE = Path(__file__).parents[2] / "docs" / "serving.md"
CSI = channels(1, 4)
BINARY = {"Content-Type": "application/octet-stream", "Authorization": f"Bearer {TOKEN}"}
#: Time after which a test fails instead of waiting for ever, s.
DEADLINE_S = 120


@dataclass
class Service:
    process: subprocess.Popen[str]
    port: int
    log: Path

    def connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=DEADLINE_S)

    def in_flight(self) -> int:
        connection = self.connect()
        connection.request("GET", "/metrics", headers=BINARY)
        lines = connection.getresponse().read().decode().splitlines()
        connection.close()
        [line] = [line for line in lines if line.startswith("feduplink_requests_in_flight ")]
        return int(float(line.split()[1]))

    def events(self) -> list[dict[str, object]]:
        return [json.loads(line) for line in self.log.read_text().splitlines()]


@contextmanager
def started(policy: Path, directory: Path, *options: object, **variables: str) -> Iterator[Service]:
    log = directory / "log"
    with log.open("w") as stderr:
        process = subprocess.Popen(
            [sys.executable, "-m", "feduplink", "serve", "--policy", policy, "--port", "0"]
            + [str(option) for option in options],
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            env={**os.environ, **variables},
            # A shell that runs the tests in the background ignores SIGINT.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler) and None,
        )
    try:
        line = process.stdout.readline()
        assert " workers on http://" in line, log.read_text()
        yield Service(process, int(line.rsplit(":", 1)[1]), log)
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


@pytest.fixture(scope="module")
def service(policy_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service with a token, on all addresses, for two requests at a time."""
    directory = tmp_path_factory.mktemp("service")
    limits = ("--max-in-flight", 2, "--max-seconds", DEADLINE_S)
    with started(
        policy_file, directory, "--host", "0.0.0.0", *limits, FEDUPLINK_TOKEN=TOKEN
    ) as service:
        yield service


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def request(connection: http.client.HTTPConnection, **headers: str) -> http.client.HTTPResponse:
    connection.request("POST", "/v1/allocate?workers=4", CSI.tobytes(), BINARY | headers)
    return connection.getresponse()


def begin(service: Service) -> socket.socket:
    """Send a request with an incomplete body."""
    connection = socket.create_connection(("127.0.0.1", service.port), timeout=DEADLINE_S)
    head = [
        "POST /v1/allocate?workers=4 HTTP/1.1",
        "Host: x",
        *(f"{name}: {value}" for name, value in BINARY.items()),
        f"Content-Length: {len(CSI.tobytes())}",
    ]
    connection.sendall("\r\n".join([*head, "", ""]).encode() + CSI.tobytes()[:10])
    return connection


def end(connection: socket.socket) -> bytes:
    """Send the rest of the body and read the powers."""
    connection.sendall(CSI.tobytes()[10:])
    response = http.client.HTTPResponse(connection)
    response.begin()
    assert response.status == 200
    return response.read()


def test_a_connection_is_kept_and_every_request_needs_the_token(service: Service):
    connection = service.connect()
    for given, status in (("Bearer wrong", 401), (f"Bearer {TOKEN}", 200), ("", 401)):
        response = request(connection, Authorization=given)
        body = response.read()
        assert response.status == status
        if status == 401:
            assert body == b'{"detail":"Unauthorized."}'
        else:
            np.testing.assert_allclose(np.frombuffer(body, "<f4"), powers_of(CSI)[0], rtol=1e-6)
    assert TOKEN not in service.log.read_text()
    assert "wrong" not in service.log.read_text()


def test_the_client_of_the_documentation_works(service: Service):
    text = PAGE.read_text(encoding="utf-8").split("## A client")[1]
    code = text.split("```python\n")[1].split("```")[0]
    assert len([line for line in code.splitlines() if line]) <= 15
    names: dict[str, type] = {}
    exec(code, names)
    client = names["Allocator"]("127.0.0.1", service.port, TOKEN)
    for csi in (channels(3, 5), channels(1, 2)[0]):
        np.testing.assert_allclose(client.allocate(csi), powers_of(csi), rtol=1e-6)
    with pytest.raises(RuntimeError, match="negative gain"):
        client.allocate(-channels(1, 2))


def test_excess_requests_are_refused_while_others_are_in_flight(service: Service):
    first, second = begin(service), begin(service)
    wait_until(lambda: service.in_flight() == 2)
    connection = service.connect()
    for _ in range(2):
        response = request(connection)
        assert (response.status, response.headers["Retry-After"]) == (503, "1")
        assert b"at most 2 requests at a time" in response.read()
    # The refusals did not wait for the requests in flight, which are completed only here.
    expected = powers_of(CSI).astype(np.float32)[0]
    for incomplete in (first, second):
        np.testing.assert_allclose(np.frombuffer(end(incomplete), "<f4"), expected, rtol=1e-6)
        incomplete.close()
    wait_until(lambda: service.in_flight() == 0)
    assert request(connection).status == 200


def test_sigterm_completes_the_requests_in_flight(policy_file: Path, tmp_path: Path):
    """Idle connections are closed; clients under load see complete responses, then no service."""
    with started(policy_file, tmp_path, "--max-in-flight", 100) as service:
        responses = []

        def load() -> None:
            connection = service.connect()
            with contextlib.suppress(ConnectionError):  # once the idle connection is closed
                while True:
                    response = request(connection)
                    responses.append((response.status, len(response.read())))

        clients = [threading.Thread(target=load) for _ in range(8)]
        for client in clients:
            client.start()
        incomplete = begin(service)
        wait_until(lambda: len(responses) >= 200)
        service.process.send_signal(signal.SIGTERM)
        for client in clients:
            client.join(DEADLINE_S)
            assert not client.is_alive()
        assert len(end(incomplete)) == 16
        assert set(responses) == {(200, 16)}
        assert service.process.wait(DEADLINE_S) == -signal.SIGTERM
        with pytest.raises(OSError):
            service.connect().connect()
        logged = [e for e in service.events() if e["event"] == "request" and e["status"] == 200]
        # Of a connection that is closed under load the last response may not be read.
        assert len(responses) + 1 <= len(logged) <= len(responses) + 1 + len(clients)


def test_sigint_ends_the_service_as_any_command(service: Service):
    """The last test of this process."""
    service.process.send_signal(signal.SIGINT)
    assert service.process.wait(DEADLINE_S) == 130
    *lines, last = service.log.read_text().splitlines()
    assert last == "feduplink: interrupted."
    assert "Shutting down" in [json.loads(line)["event"] for line in lines]


@pytest.mark.slow
def test_a_trained_policy_is_exported_and_served(tmp_path: Path):
    save_policy(GraphPolicy.initialised(Scenario(workers=4), seed=1), tmp_path / "trained")
    with started(tmp_path / "trained", tmp_path, "--workers", 4) as service:
        connection = service.connect()
        connection.request("GET", "/v1/policy")
        description = json.loads(connection.getresponse().read())
    assert (description["policy"], description["workers"]) == ("pdg", None)


def test_log_lines_are_ascii_json():
    record = logging.makeLogRecord({"msg": "request", "fields": {"path": '/a"\n\u2028{'}})
    line = JsonFormatter().format(record)
    assert line.isascii()
    assert "\n" not in line
    assert json.loads(line)["path"] == '/a"\n\u2028{'


@pytest.fixture
def no_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FEDUPLINK_TOKEN", raising=False)


@pytest.mark.usefixtures("no_token")
def test_an_address_that_other_machines_reach_needs_a_token():
    with pytest.raises(
        InputError, match="can be reached from other machines; accepted with a token"
    ):
        serve(host="0.0.0.0", port=0)


@pytest.mark.usefixtures("no_token")
@pytest.mark.parametrize("content", ["", "short\n", "sixteen or more\tcharacters", "ä" * 20])
def test_invalid_tokens_are_refused_and_not_repeated(
    content: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    file = tmp_path / "token"
    file.write_text(content)
    with pytest.raises(InputError, match="at least 16 printable ASCII characters") as refusal:
        serve(token_file=file, host="0.0.0.0")
    assert not content or content not in str(refusal.value)
    monkeypatch.setenv("FEDUPLINK_TOKEN", content)
    with pytest.raises(InputError, match="The token in FEDUPLINK_TOKEN"):
        serve()


def test_a_missing_token_file_is_refused(tmp_path: Path):
    with pytest.raises(InputError, match="does not exist"):
        serve(token_file=tmp_path / "nowhere")


@pytest.mark.usefixtures("no_token")
def test_addresses_that_are_not_available_are_refused():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(InputError, match=f"port {port} of 127.0.0.1 is not available"):
            serve(port=port)
    with pytest.raises(InputError, match="host must be an address of this machine"):
        serve(host="no such host")


@pytest.mark.usefixtures("no_token")
def test_an_onnx_file_accepts_no_other_scenario(policy_file: Path):
    with pytest.raises(InputError, match="scenario must not be given with an ONNX file"):
        serve(Scenario(), str(policy_file), port=0)


@pytest.mark.usefixtures("no_token")
def test_a_missing_policy_file_is_refused():
    with pytest.raises(InputError, match=r"policy\.onnx does not exist"):
        serve(policy="policy.onnx", port=0)
