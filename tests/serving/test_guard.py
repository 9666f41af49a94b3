from __future__ import annotations

import asyncio
import json
import logging
import threading
from collections.abc import Iterator

import httpx
import numpy as np
import pytest
from fastapi.testclient import TestClient

from feduplink.export import OnnxPolicy
from feduplink.serving.app import create_app
from feduplink.serving.limits import Limits
from feduplink.serving.request_log import JsonLines

from .conftest import channels, powers_of
from .test_app import JSON, refused

TOKEN = "only-for-those-who-know-it"
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
def test_without_the_token_nothing_is_told(guarded: TestClient, method, path, given):
    headers = {} if given is None else {"Authorization": given}
    response = guarded.request(method, path, headers=headers)
    assert refused(response, 401) == "Unauthorized."
    assert response.headers["www-authenticate"] == "Bearer"


def test_two_tokens_are_none(guarded: TestClient):
    both = [("Authorization", f"Bearer {TOKEN}"), ("Authorization", "Bearer x")]
    assert guarded.get("/v1/policy", headers=both).status_code == 401


@pytest.mark.parametrize("scheme", ["Bearer", "bearer"])
def test_with_the_token(guarded: TestClient, scheme: str):
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
    lines = [JsonLines().format(record) for record in caplog.records]
    assert [json.loads(line)["status"] for line in lines] == [200, 422, 401]
    assert {json.loads(line)["path"] for line in lines} == {"/v1/allocate"}
    for hidden in (TOKEN, secret, "123454321", "X-Key"):
        assert hidden not in "".join(lines)


def test_a_line_stays_a_line():
    record = logging.makeLogRecord({"msg": "request", "fields": {"path": '/a"\n\u2028{'}})
    line = JsonLines().format(record)
    assert line.isascii()
    assert "\n" not in line
    assert json.loads(line)["path"] == '/a"\n\u2028{'


@pytest.mark.parametrize("chunked", [False, True])
def test_large_bodies(client: TestClient, chunked: bool):
    body = b'{"csi": ' + b" " * 20_000
    pieces = (body[first : first + 1000] for first in range(0, len(body), 1000))
    response = client.post("/v1/allocate", content=pieces if chunked else body, headers=JSON)
    assert refused(response, 413) == "body: too large; accepted: at most 20000 bytes."


def test_the_rest_of_a_large_body_is_not_read(client: TestClient):
    """Neither of one that says how large it is, nor of one that has no end."""
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

    assert asyncio.run(status((b"content-length", b"20001"))) == 413
    assert asyncio.run(status((b"content-length", b"9" * 5000))) == 413
    assert taken == 0
    assert asyncio.run(status()) == 413
    assert taken == 21


def test_a_slow_body_is_not_waited_for(policy: OnnxPolicy):
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
    assert sentence == "body: incomplete; accepted: the whole of it within 0.1 s."


def test_a_long_computation_is_not_waited_for(policy: OnnxPolicy, monkeypatch):
    enough = threading.Event()

    def slow(csi: np.ndarray) -> np.ndarray:
        assert csi.shape[-1] != 2 or enough.wait(60)
        return powers_of(csi).astype(np.float32)

    monkeypatch.setattr(policy, "run", slow)
    with TestClient(create_app(policy, limits=Limits(max_seconds=0.5))) as client:
        late = client.post("/v1/allocate", json={"csi": channels(1, 2).tolist()})
        assert "No answer within 0.5 s" in refused(late, 503)
        assert late.headers["retry-after"] == "1"
        enough.set()


def test_more_than_it_takes_on(policy: OnnxPolicy):
    """Two requests whose bodies are not whole are under way; a third has to come again."""
    whole = asyncio.Event()

    async def slow():
        yield b'{"csi": [['
        await whole.wait()
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
                while "feduplink_requests_in_flight 2" not in (await client.get("/metrics")).text:
                    await asyncio.sleep(0)
            busy = await ask("/v1/allocate", json={"csi": [[1.0]]})
            health, metrics = await client.get("/healthz"), await client.get("/metrics")
            whole.set()
            await asyncio.gather(*taken)
            recovered = await ask("/v1/allocate", json={"csi": [[1.0]]})
            return [busy, health, metrics, *[task.result() for task in taken], recovered]

    busy, health, metrics, *others = asyncio.run(answers())
    assert refused(busy, 503) == "Too many requests under way; accepted: 2 at once."
    assert busy.headers["retry-after"] == "1"
    assert health.status_code == metrics.status_code == 200
    assert "feduplink_requests_in_flight 2" in metrics.text
    assert [other.status_code for other in others] == [200] * 3
