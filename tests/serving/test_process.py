"""The service as a process: signals, overload and tokens over real sockets."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from .conftest import channels, powers_of

PAGE = Path(__file__).parents[2] / "docs" / "serving.md"
TOKEN = "only-for-those-who-know-it"
CSI = channels(1, 4)
BINARY = {"Content-Type": "application/octet-stream", "Authorization": f"Bearer {TOKEN}"}


@dataclass
class Service:
    process: subprocess.Popen[str]
    port: int
    log: Path

    def connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)

    def entries(self) -> list[dict[str, object]]:
        return [json.loads(line) for line in self.log.read_text().splitlines()]


@contextmanager
def started(policy_file: Path, directory: Path, *words: object, **variables: str):
    log = directory / "log"
    with log.open("w") as stderr:
        process = subprocess.Popen(
            [sys.executable, "-m", "feduplink", "serve", "--policy", policy_file, "--port", "0"]
            + [str(word) for word in words],
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            env={**os.environ, **variables},
            # What runs the tests in the background may have them ignore it.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler) and None,
        )
    try:
        said = process.stdout.readline()
        assert said.startswith("inversion for any number of workers on http://"), log.read_text()
        yield Service(process, int(said.rsplit(":", 1)[1]), log)
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


@pytest.fixture(scope="module")
def service(policy_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """With a token, on every address, and for two requests at a time."""
    directory = tmp_path_factory.mktemp("service")
    limits = ("--max-in-flight", 2, "--max-seconds", 15)
    with started(
        policy_file, directory, "--host", "0.0.0.0", *limits, FEDUPLINK_TOKEN=TOKEN
    ) as service:
        yield service


def ask(connection: http.client.HTTPConnection, **headers: str) -> http.client.HTTPResponse:
    connection.request("POST", "/v1/allocate?workers=4", CSI.tobytes(), BINARY | headers)
    return connection.getresponse()


def begin(service: Service) -> socket.socket:
    """A request whose body is not whole yet."""
    connection = socket.create_connection(("127.0.0.1", service.port), timeout=20)
    head = [
        "POST /v1/allocate?workers=4 HTTP/1.1",
        "Host: x",
        *(f"{name}: {value}" for name, value in BINARY.items()),
        f"Content-Length: {len(CSI.tobytes())}",
    ]
    connection.sendall("\r\n".join([*head, "", ""]).encode() + CSI.tobytes()[:10])
    return connection


def end(connection: socket.socket) -> bytes:
    """Send the rest, and read the powers."""
    connection.sendall(CSI.tobytes()[10:])
    response = http.client.HTTPResponse(connection)
    response.begin()
    assert response.status == 200
    return response.read()


def test_the_token_over_a_connection_that_is_kept(service: Service):
    connection = service.connect()
    for given, status in (("Bearer wrong", 401), (f"Bearer {TOKEN}", 200), ("", 401)):
        response = ask(connection, Authorization=given)
        body = response.read()
        assert response.status == status
        if status == 401:
            assert body == b'{"detail":"Unauthorized."}'
        else:
            np.testing.assert_allclose(np.frombuffer(body, "<f4"), powers_of(CSI)[0], rtol=1e-6)
    assert TOKEN not in service.log.read_text()
    assert "wrong" not in service.log.read_text()


def test_the_client_of_the_page(service: Service):
    text = PAGE.read_text(encoding="utf-8").split("## A client")[1]
    code = text.split("```python\n")[1].split("```")[0]
    assert len([line for line in code.splitlines() if line]) <= 15
    names: dict[str, type] = {}
    exec(code, names)
    client = names["Allocator"]("127.0.0.1", service.port, TOKEN)
    for csi in (channels(3, 5), channels(1, 2)[0]):
        np.testing.assert_allclose(client.allocate(csi), powers_of(csi), rtol=1e-6)
    with pytest.raises(RuntimeError, match="negative or zero gain"):
        client.allocate(-channels(1, 2))


def test_overload_is_told_at_once_and_passes(service: Service):
    first, second = begin(service), begin(service)
    connection = service.connect()
    deadline = time.monotonic() + 10
    while (response := ask(connection)).status == 200 and time.monotonic() < deadline:
        response.read()  # the other two are on their way
    begun = time.perf_counter()
    assert response.read() == b'{"detail":"Too many requests under way; accepted: 2 at once."}'
    again = ask(connection)
    assert time.perf_counter() - begun < 5  # they would be waited for 15 s
    assert (again.status, again.headers["Retry-After"]) == (503, "1")
    again.read()
    expected = powers_of(CSI).astype(np.float32)[0]
    for connection_under_way in (first, second):
        np.testing.assert_allclose(
            np.frombuffer(end(connection_under_way), "<f4"), expected, rtol=1e-6
        )
        connection_under_way.close()
    deadline = time.monotonic() + 10
    while (response := ask(connection)).status == 503 and time.monotonic() < deadline:
        response.read()
    assert response.status == 200


def test_sigterm_under_load_answers_all_that_was_asked(policy_file: Path, tmp_path: Path):
    """Clients that obey "Connection: close" see nothing but answers, then nobody who listens."""
    with started(policy_file, tmp_path, "--max-in-flight", 100) as service:
        answers, failures = [], []

        def load() -> None:
            connection = service.connect()
            try:
                while True:
                    response = ask(connection)
                    answers.append((response.status, len(response.read())))
                    if response.headers["Connection"] == "close":
                        return
            except Exception as error:
                failures.append(error)

        clients = [threading.Thread(target=load) for _ in range(8)]
        for client in clients:
            client.start()
        half, idle = begin(service), service.connect()
        idle.connect()
        deadline = time.monotonic() + 20
        while len(answers) < 200 and time.monotonic() < deadline:
            time.sleep(0.01)
        before = len(answers)
        service.process.send_signal(signal.SIGTERM)
        for client in clients:
            client.join(20)
        assert len(end(half)) == 16  # it was begun before, and came to its end after
        assert failures == []
        assert before >= 200
        assert set(answers) == {(200, 16)}
        assert service.process.wait(20) == -signal.SIGTERM
        with pytest.raises(OSError):
            service.connect().connect()
        logged = [entry for entry in service.entries() if entry["event"] == "request"]
        assert len(logged) == len(answers) + 1
        assert [entry["event"] for entry in service.entries()][-1] == "stopped"


def test_sigint_ends_it_as_any_command(service: Service):
    """The last test of this process."""
    service.process.send_signal(signal.SIGINT)
    assert service.process.wait(20) == 130
    *lines, last = service.log.read_text().splitlines()
    assert last == "feduplink: interrupted."
    assert [json.loads(line)["event"] for line in lines[-2:]] == ["stopping", "stopped"]
