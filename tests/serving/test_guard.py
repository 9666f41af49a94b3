from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import numpy as np
import pytest
from fastapi.testclient import TestClient

from feduplink.export import OnnxPolicy
from feduplink.serving import Limits
from feduplink.serving.app import create_app

from .conftest import JSON, TOKEN, channels, refused

ROUTES = [("POST", "/v1/allocate"), ("GET", "/v1/policy"), ("GET", "/metrics")]
ROUTES += [("GET", "/openapi.json"), ("GET", "/nothing"), ("PUT", "/v1/allocate")]


@pytest.fixture(scope="module")
def guarded(policy: OnnxPolicy) -> Iterator[TestClient]:
    with TestClient(create_app(policy, token=TOKEN)) as client:
        yield client


@pytest.mark.parametrize(("method", "path"), ROUTES)
@pytest.mark.parametrize(
    "given",
    [
        None,
        "",
        "Bearer",
        "Bearer ",
        f"Bearer {TOKEN[:-1]}",
        f"Bearer {TOKEN}x",
        f"Bearer  {TOKEN}",
        f"Basic {TOKEN}",
        TOKEN,
    ],
)
def test_requests_without_the_token_are_refused(guarded: TestClient, method, path, given):
    headers = {} if given is None else {"Authorization": given}
    response = guarded.request(method, path, headers=headers)
    assert refused(response, 401) == "Unauthorized."
    assert response.headers["www-authenticate"] == "Bearer"


def test_two_tokens_are_refused(guarded: TestClient):
    both = [("Authorization", f"Bearer {TOKEN}"), ("Authorization", "Bearer x")]
    assert guarded.get("/v1/policy", headers=both).status_code == 401


@pytest.mark.parametrize("scheme", ["Bearer", "bearer"])
def test_requests_with_the_token_are_served(guarded: TestClient, scheme: str):
    headers = {"Authorization": f"{scheme} {TOKEN}"}
    assert guarded.get("/v1/policy", headers=headers).status_code == 200
    response = guarded.post("/v1/allocate", json={"csi": [[1.0]]}, headers=headers)
    assert response.status_code == 200


def test_health_needs_no_token(guarded: TestClient):
    assert guarded.get("/healthz").status_code == 200


def test_the_log_has_neither_token_nor_query_nor_body(guarded: TestClient, caplog):
    caplog.set_level(logging.INFO, "feduplink.serving")
    secret = "never-to-be-seen"
    for token, query in ((TOKEN, ""), (TOKEN, f"?key={secret}"), (secret, "")):
        guarded.post(
            f"/v1/allocate{query}",
            json={"csi": [[123454321.0]]},
            headers={"Authorization": f"Bearer {token}", "X-Key": secret},
        )
    fields = [record.fields for record in caplog.records]
    assert [entry["status"] for entry in fields] == [200, 422, 401]
    assert {entry["path"] for entry in fields} == {"/v1/allocate"}
    assert {record.getMessage() for record in caplog.records} == {"request"}
    for hidden in (TOKEN, secret, "123454321", "X-Key"):
        assert hidden not in str(fields)


@pytest.mark.parametrize("chunked", [False, True])
def test_large_bodies_are_refused(client: TestClient, chunked: bool):
    body = b'{"csi": ' + b" " * 20_000
    pieces = (body[first : first + 1000] for first in range(0, len(body), 1000))
    response = client.post("/v1/allocate", content=pieces if chunked else body, headers=JSON)
    assert refused(response, 413) == "The body must have at most 20000 bytes."


def test_the_rest_of_a_large_body_is_not_read(client: TestClient):
    """With a Content-Length as without an end."""
    taken = 0

    async def endless() -> dict[str, object]:
        nonlocal taken
        taken += 1
        return {"type": "http.request", "body": bytes(1000), "more_body": True}

    async def status(*headers: tuple[bytes, bytes]) -> int:
        sent = []

        async def send(message) -> None:
            sent.append(message)

        scope = {
            "type": "http",
            "method": "POST",
            "path": "/v1/allocate",
            "query_string": b"",
            "headers": [(b"content-type", b"application/json"), *headers],
        }
        await client.app(scope, endless, send)
        return sent[0]["status"]

    assert asyncio.run(status((b"content-length", b"9" * 5000))) == 413
    assert taken == 21
    assert asyncio.run(status()) == 413
    assert taken == 42


def test_a_slow_body_is_refused(policy: OnnxPolicy):
    async def trickle():
        yield b'{"csi":'
        await asyncio.sleep(30)

    async def answer() -> httpx.Response:
        app = create_app(policy, limits=Limits(max_seconds=0.1))
        async with httpx.AsyncClient(
            transport=httpx.ASGITransport(app), base_url="http://service"
        ) as client:
            return await client.post("/v1/allocate", content=trickle(), headers=JSON)

    sentence = refused(asyncio.run(answer()), 408)
    assert sentence == "The body must arrive within 0.1 s."


def test_a_long_computation_is_given_up(policy_file: Path):
    finish = threading.Event()

    class Slow(OnnxPolicy):
        def run(self, csi: np.ndarray) -> np.ndarray:
            assert csi.shape[-1] != 3 or finish.wait(60)
            return super().run(csi)

    with TestClient(create_app(Slow(policy_file), limits=Limits(max_seconds=0.5))) as client:
        late = client.post("/v1/allocate", json={"csi": channels(1, 3).tolist()})
        assert "No response within 0.5 s" in refused(late, 503)
        assert late.headers["retry-after"] == "1"
        finish.set()


def test_a_request_above_the_limit_of_concurrent_ones_is_refused(policy: OnnxPolicy):
    """Two requests with incomplete bodies are in flight; a third is refused."""
    complete = asyncio.Event()

    async def slow():
        yield b'{"csi": [['
        await complete.wait()
        yield b"1.0]]}"

    async def answers() -> list[httpx.Response]:
        app = create_app(policy, limits=Limits(max_in_flight=2))
        async with httpx.AsyncClient(
            transport=httpx.ASGITransport(app), base_url="http://service"
        ) as client:
            ask = client.post
            taken = [
                asyncio.create_task(ask("/v1/allocate", content=slow(), headers=JSON))
                for _ in range(2)
            ]
            async with asyncio.timeout(60):
                while "feduplink_requests_in_flight 2.0" not in (await client.get("/metrics")).text:
                    await asyncio.sleep(0)
            busy = await ask("/v1/allocate", json={"csi": [[1.0]]})
            health, metrics = await client.get("/healthz"), await client.get("/metrics")
            complete.set()
            await asyncio.gather(*taken)
            recovered = await ask("/v1/allocate", json={"csi": [[1.0]]})
            return [busy, health, metrics, *[task.result() for task in taken], recovered]

    busy, health, metrics, *others = asyncio.run(answers())
    assert (
        refused(busy, 503) == "The service handles at most 2 requests at a time; retry after 1 s."
    )
    assert busy.headers["retry-after"] == "1"
    assert health.status_code == metrics.status_code == 200
    assert "feduplink_requests_in_flight 2.0" in metrics.text
    assert [other.status_code for other in others] == [200] * 3
