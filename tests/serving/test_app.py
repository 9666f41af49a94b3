from __future__ import annotations

import itertools
import json
from pathlib import Path

import numpy as np
import pytest
from fastapi import APIRouter
from fastapi.testclient import TestClient
from prometheus_client.parser import text_string_to_metric_families

from feduplink import GraphPolicy, Scenario
from feduplink.export import OnnxPolicy, export_onnx
from feduplink.policies import shipped_pdx
from feduplink.serving.app import create_app

from .conftest import channels, powers_of

BINARY = {"Content-Type": "application/octet-stream"}
JSON = {"Content-Type": "application/json"}


def refused(response, status: int) -> str:
    """The one sentence of a refusal."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/json"
    assert list(response.json()) == ["detail"]
    sentence = response.json()["detail"]
    assert sentence.endswith(".")
    assert "\n" not in sentence
    return sentence


@pytest.mark.parametrize("workers", [1, 4, 7])
def test_one_and_many_channels_in_both_forms(client: TestClient, workers: int):
    csi = channels(5, workers)
    expected = powers_of(csi)
    many = client.post("/v1/allocate", json={"csi": csi.tolist()})
    np.testing.assert_allclose(many.json()["power_w"], expected, rtol=1e-6)
    one = client.post("/v1/allocate", json={"csi": csi[0].tolist()})
    np.testing.assert_allclose(one.json()["power_w"], expected[0], rtol=1e-6)
    binary = client.post(
        f"/v1/allocate?workers={workers}", content=csi.astype("<f4").tobytes(), headers=BINARY
    )
    assert binary.headers["content-type"] == "application/octet-stream"
    powers = np.frombuffer(binary.content, "<f4").reshape(5, workers)
    np.testing.assert_allclose(powers, expected, rtol=1e-6)


def test_no_power_is_above_pmax(client: TestClient, policy: OnnxPolicy):
    """Not even by rounding: in float32 this Pmax is larger than it is."""
    pmax_w = float(policy.scenario.pmax_w)
    alone = [[1.0]]
    raw = policy.run(np.array([alone], np.float32))
    assert float(raw.max()) > pmax_w
    [power] = client.post("/v1/allocate", json={"csi": alone}).json()["power_w"]
    assert 0.9999999 * pmax_w < power <= pmax_w


def test_the_largest_float32_is_accepted(client: TestClient):
    largest = float(np.finfo(np.float32).max)
    response = client.post("/v1/allocate", json={"csi": [[largest]]})
    assert response.json()["power_w"] == pytest.approx([1 / largest], rel=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["pdg", "pdx"])
def test_any_gains_have_powers_in_range(name: str, tmp_path: Path):
    real = shipped_pdx() if name == "pdx" else GraphPolicy.initialised(Scenario(), seed=3)
    policy = OnnxPolicy(export_onnx(real, tmp_path / "policy.onnx").file)
    random = np.random.default_rng(2)
    with TestClient(create_app(policy)) as client:
        for decades, workers in itertools.product([5, 20, 37, 45], [1, 2, 6, 30]):
            exponents = random.uniform(-decades, min(decades, 38.5), (100, workers, workers))
            gains = np.maximum(10**exponents, np.finfo(np.float32).smallest_subnormal)
            response = client.post(
                f"/v1/allocate?workers={workers}",
                content=gains.astype("<f4").tobytes(),
                headers=BINARY,
            )
            assert response.status_code == 200
            powers = np.frombuffer(response.content, "<f4").astype(np.float64)
            assert (powers >= 0).all()
            assert (powers <= float(policy.scenario.pmax_w)).all()


def test_a_power_that_is_no_number_is_not_sent(policy: OnnxPolicy, monkeypatch):
    monkeypatch.setattr(policy, "run", lambda csi: np.full(csi.shape[:-1], np.nan, np.float32))
    with TestClient(create_app(policy)) as client:
        response = client.post("/v1/allocate", json={"csi": [[1.0]]})
    assert "too far apart" in refused(response, 422)


@pytest.mark.parametrize(
    ("csi", "said"),
    [
        ("[[NaN]]", "holds NaN"),
        ("[[Infinity]]", "beyond float32"),
        ("[[1e39]]", "beyond float32"),
        ("[[1e400]]", "beyond float32"),
        ("[[3.402823466385289e38]]", "beyond float32"),  # the next after the largest float32
        ("[[-Infinity]]", "negative or zero"),
        ("[[-1]]", "negative or zero"),
        ("[[0]]", "negative or zero"),
        ("[[1e-60]]", "negative or zero"),
        ("[[1, 2]]", "shape (1, 2) is not square"),
        ("[[[1, 2]], [[3, 4]]]", "shape (2, 1, 2) is not square"),
        ("[[1, 2], [3]]", "no matrix of numbers"),
        ("[[1, 2], 3]", "no matrix of numbers"),
        ("[1]", "no matrix of numbers"),
        ("[[[[1]]]]", "no matrix of numbers"),
        ("[]", "no matrix of numbers"),
        ("[[]]", "no matrix of numbers"),
        ("[[[]]]", "no matrix of numbers"),
        ("1", "no matrix of numbers"),
        ("null", "no matrix of numbers"),
        ('"csi"', "no matrix of numbers"),
        ('[["1"]]', "no matrix of numbers"),
        ("[[true]]", "no matrix of numbers"),
        ("[[1, true], [1.5, 1]]", "no matrix of numbers"),
        ("[[null]]", "no matrix of numbers"),
        ("[[{}]]", "no matrix of numbers"),
        (f"[[1{'0' * 400}]]", "no matrix of numbers"),
        (json.dumps([[1.0] * 11] * 11), "workers: 11; accepted: 1 to 10"),
        (json.dumps([[[1.0]]] * 21), "21 channels; accepted: at most 20"),
    ],
)
def test_json_that_is_no_csi(client: TestClient, csi: str, said: str):
    response = client.post("/v1/allocate", content=f'{{"csi": {csi}}}', headers=JSON)
    assert said in refused(response, 422)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"", "no JSON"),
        (b'{"csi": [[1]]', "no JSON"),
        (b"\xff\xfe", "no JSON"),
        (b'{"csi": ' + b"[" * 5000, "no JSON"),
        (b"[[1]]", "no object with the one field csi"),
        (b"{}", "no object with the one field csi"),
        (b'{"csi": [[1]], "workers": 1}', "no object with the one field csi"),
    ],
)
def test_bodies_that_are_no_csi(client: TestClient, body: bytes, said: str):
    assert said in refused(client.post("/v1/allocate", content=body, headers=JSON), 422)


@pytest.mark.parametrize(
    ("query", "body", "said"),
    [
        ("", bytes(16), "workers: missing"),
        ("?workers=2", bytes(15), "15 bytes; accepted with 2 workers: one or more times 16 bytes"),
        ("?workers=2", b"", "0 bytes"),
        ("?workers=3", bytes(16), "16 bytes; accepted with 3 workers"),
        ("?workers=0", bytes(16), "workers: Input should be greater than or equal to 1."),
        ("?workers=10000", bytes(16), "workers: Input should be less than or equal to 10."),
        ("?workers=two", bytes(16), "workers: Input should be a valid integer"),
        ("?workers=1", bytes(4), "negative or zero"),
        ("?workers=1", b"\0\0\xc0\x7f", "holds NaN"),
        ("?workers=1", np.float32(-1).tobytes(), "negative or zero"),
        ("?workers=1", np.ones(21, "<f4").tobytes(), "21 channels; accepted: at most 20"),
    ],
)
def test_bytes_that_are_no_csi(client: TestClient, query: str, body: bytes, said: str):
    response = client.post(f"/v1/allocate{query}", content=body, headers=BINARY)
    assert said in refused(response, 422)


@pytest.mark.parametrize(
    "query", ["?worker=2", "?workers=2&token=x", "?workers=2&workers=2", "?=2", "?workers=2&="]
)
@pytest.mark.parametrize(
    ("headers", "body"), [(BINARY, channels(1, 2).tobytes()), (JSON, b'{"csi": [[1, 2], [3, 4]]}')]
)
def test_nothing_in_the_query_is_ignored(
    client: TestClient, query: str, headers: dict[str, str], body: bytes
):
    assert client.post("/v1/allocate?workers=2", content=body, headers=headers).status_code == 200
    response = client.post(f"/v1/allocate{query}", content=body, headers=headers)
    assert refused(response, 422) == "query: not accepted; accepted: none, or workers=L once."


def test_workers_in_the_query_are_those_of_the_json(client: TestClient):
    response = client.post("/v1/allocate?workers=3", json={"csi": [[1, 2], [3, 4]]})
    assert refused(response, 422).startswith("workers: 3, but csi has 2; accepted with JSON:")


def test_other_requests(client: TestClient):
    assert "accepted: application/json" in refused(client.post("/v1/allocate", data={"a": 1}), 415)
    assert "accepted: application/json" in refused(client.post("/v1/allocate"), 415)
    wrong_method = client.get("/v1/allocate")
    assert refused(wrong_method, 405) == "Method Not Allowed."
    assert wrong_method.headers["allow"] == "POST"
    assert refused(client.get("/nothing"), 404) == "Not Found."


def test_a_policy_for_a_fixed_number_of_workers(policy: OnnxPolicy, monkeypatch):
    monkeypatch.setattr(policy, "fixed_workers", 4)
    with TestClient(create_app(policy)) as client:
        response = client.post("/v1/allocate", json={"csi": channels(1, 3).tolist()})
        assert refused(response, 422) == "csi: 3 workers; accepted here: exactly 4."
        assert client.post("/v1/allocate", json={"csi": channels(1, 4).tolist()}).is_success


def test_a_failure_tells_nothing(policy: OnnxPolicy, monkeypatch):
    with TestClient(create_app(policy), raise_server_exceptions=False) as client:
        monkeypatch.setattr(policy, "_session", None)
        failed = client.post("/v1/allocate", json={"csi": [[1.0]]})
        assert refused(failed, 500) == "The service failed."
        monkeypatch.undo()
        assert client.post("/v1/allocate", json={"csi": [[1.0]]}).status_code == 200


def test_the_policy_and_health(client: TestClient, policy: OnnxPolicy):
    told = client.get("/v1/policy").json()
    assert told["policy"] == "inversion"
    assert told["pmax_w"] == float(policy.scenario.pmax_w)
    assert told["workers"] is None
    assert told["scenario"]["pmax_dbw"] == -30
    assert told["limits"]["max_channels"] == 20
    assert told["units"]["power_w"] == "W"
    assert client.get("/healthz").json() == {"status": "ok"}


def test_metrics(policy: OnnxPolicy):
    with TestClient(create_app(policy)) as client:
        for _ in range(3):
            client.post("/v1/allocate", json={"csi": channels(2, 4).tolist()})
        client.post("/v1/allocate", json={"csi": 1})
        client.get("/a-path-that-somebody-made-up")
        client.request("BREW", "/healthz")
        response = client.get("/metrics")
    assert response.headers["content-type"].startswith("text/plain; version=")
    samples = {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(response.text)
        for sample in family.samples
    }
    allocated = ("feduplink_requests_total", "POST", "/v1/allocate")
    assert samples[*allocated, "200"] == 3
    assert samples[*allocated, "422"] == 1
    assert samples["feduplink_requests_total", "GET", "other", "404"] == 1
    assert samples["feduplink_requests_total", "-", "/healthz", "405"] == 1
    assert samples["feduplink_channels_total",] == 7  # including one at start-up
    assert samples["feduplink_requests_in_flight",] == 0
    assert samples["feduplink_request_seconds_count",] == 6
    assert samples["feduplink_request_seconds_bucket", "+Inf"] == 6
    assert samples["process_resident_memory_bytes",] > 1e7


def test_routers_are_behind_the_same_guard_but_for_the_page(policy: OnnxPolicy):
    router = APIRouter()
    for path in ("/", "/playground/main.js", "/v1/scene"):
        router.get(path)(lambda: "answer")
    token = "t" * 16
    with TestClient(create_app(policy, token=token, routers=[router])) as client:
        assert client.get("/v1/scene").status_code == 401
        assert client.get("/v1/scene", headers={"Authorization": f"Bearer {token}"}).is_success
        assert client.get("/").is_success
        assert client.get("/playground/main.js").is_success
        assert client.get("/playground/").status_code == 401
