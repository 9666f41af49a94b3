from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator

import pytest

uvicorn = pytest.importorskip("uvicorn", reason="feduplink[serve] is not installed")
fastapi = pytest.importorskip("fastapi", reason="feduplink[serve] is not installed")
httpx = pytest.importorskip("httpx", reason="httpx is not installed")

from feduplink import Scenario  # noqa: E402
from feduplink.export import OnnxPolicy  # noqa: E402
from feduplink.serving import Limits  # noqa: E402
from feduplink.serving.app import create_app  # noqa: E402
from feduplink.serving.playground import playground_router  # noqa: E402

#: For a setting's multipliers to be found, s, on a machine that does other things as well.
PATIENCE_S = 120.0


def served(app: fastapi.FastAPI) -> Iterator[str]:
    """The address of a service on a free port of the loopback, until the generator is closed."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", ws="none"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()


@pytest.fixture(scope="session")
def playground(policy: OnnxPolicy) -> Iterator[str]:
    """The playground of the default scenario, with what its first scene needs already found."""
    limits = Limits(max_seconds=PATIENCE_S)
    app = create_app(policy, limits=limits, routers=[playground_router(Scenario())])
    for address in served(app):
        scene = httpx.get(f"{address}/v1/cell").json()["scene"]
        wait_for_multipliers(address, scene)
        yield address


def answer(address: str, scene: dict) -> dict:
    """What the service makes of a scene."""
    response = httpx.post(f"{address}/v1/scene", json=scene, timeout=60)
    assert response.status_code == 200, response.text
    return response.json()


def wait_for_multipliers(address: str, scene: dict) -> dict:
    """The answer with the multipliers of the scene's own setting."""
    end = time.monotonic() + PATIENCE_S
    while (found := answer(address, scene))["multipliers"]["searching"]:
        assert time.monotonic() < end, "the multipliers were not found in time"
        time.sleep(0.4)
    return found
