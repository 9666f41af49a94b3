"""Routes of the service."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from fastapi import APIRouter
from fastapi.testclient import TestClient
from prometheus_client.parser import text_string_to_metric_families

from feduplink import GraphPolicy, Scenario, link
from feduplink.channels import make_channels
from feduplink.export import OnnxPolicy, export_onnx
from feduplink.link import Schedule
from feduplink.policies import shipped_pdx
from feduplink.serving.app import create_app

from .conftest import BINARY, JSON, SCENARIO, TOKEN, channels, refused, write_policy

BITS = 1e6


def test_no_power_is_above_pmax(client: TestClient, policy: OnnxPolicy):
    """In float32 this Pmax is rounded up."""
    pmax_w = float(policy.scenario.max_power)
    alone = [[1.0]]
    raw = policy.run(np.array([alone], np.float32))
    assert float(raw.max()) > pmax_w
    [power] = client.post("/v1/allocate", json={"csi": alone}).json()["power_w"]
    assert 0.9999999 * pmax_w < power <= pmax_w


@pytest.mark.slow
@pytest.mark.parametrize("name", ["pdg", "pdx"])
def test_powers_are_in_range_for_any_gains(name: str, tmp_path: Path):
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
            assert (powers <= float(policy.scenario.max_power)).all()


def test_powers_that_are_not_finite_are_refused(tmp_path: Path):
    """The policy is p_i = 1e-5 √(100 − Σ_j H_ij)."""
    node = onnx.helper.make_node
    nodes = [
        node("ReduceSum", ["csi", "axis"], ["sum"], keepdims=0),
        node("Constant", [], ["limit"], value_float=100.0),
        node("Constant", [], ["scale"], value_float=1e-5),
        node("Sub", ["limit", "sum"], ["difference"]),
        node("Sqrt", ["difference"], ["root"]),
        node("Mul", ["root", "scale"], ["power_w"]),
    ]
    policy = OnnxPolicy(write_policy(tmp_path / "policy.onnx", nodes))
    with TestClient(create_app(policy)) as client:
        assert client.post("/v1/allocate", json={"csi": [[19.0]]}).json()["power_w"][0] > 0
        response = client.post("/v1/allocate", json={"csi": [[101.0]]})
    assert "dynamic range" in refused(response, 422)


@pytest.mark.parametrize(
    "query", ["?worker=2", "?workers=2&token=x", "?workers=2&workers=2", "?=2", "?workers=2&="]
)
@pytest.mark.parametrize(
    ("headers", "body"), [(BINARY, channels(1, 2).tobytes()), (JSON, b'{"csi": [[1, 2], [3, 4]]}')]
)
def test_unknown_and_repeated_query_parameters_are_refused(
    client: TestClient, query: str, headers: dict[str, str], body: bytes
):
    assert client.post("/v1/allocate?workers=2", content=body, headers=headers).status_code == 200
    response = client.post(f"/v1/allocate{query}", content=body, headers=headers)
    assert refused(response, 422) == "The query must be empty or workers=L."


def test_other_media_types_methods_and_paths_are_refused(client: TestClient):
    for response in (client.post("/v1/allocate", data={"a": 1}), client.post("/v1/allocate")):
        sentence = refused(response, 415)
        assert sentence == "Content-Type must be application/json or application/octet-stream."
    wrong_method = client.get("/v1/allocate")
    assert refused(wrong_method, 405) == "Method Not Allowed."
    assert wrong_method.headers["allow"] == "POST"
    assert refused(client.get("/nothing"), 404) == "Not Found."


def test_a_policy_for_a_fixed_number_of_workers_accepts_no_other(tmp_path: Path):
    policy = OnnxPolicy(write_policy(tmp_path / "policy.onnx", workers=4))
    with TestClient(create_app(policy)) as client:
        response = client.post("/v1/allocate", json={"csi": channels(1, 3).tolist()})
        assert refused(response, 422) == "csi must have exactly 4 workers; got 3."
        assert client.post("/v1/allocate", json={"csi": channels(1, 4).tolist()}).is_success


def test_an_unexpected_error_reveals_nothing(policy_file: Path):
    class Failing(OnnxPolicy):
        def run(self, csi: np.ndarray) -> np.ndarray:
            if csi.shape[-1] == 1:
                raise RuntimeError("secret")
            return super().run(csi)

    with TestClient(create_app(Failing(policy_file)), raise_server_exceptions=False) as client:
        failed = client.post("/v1/allocate", json={"csi": [[1.0]]})
        assert refused(failed, 500) == "The service failed."
        assert client.post("/v1/allocate", json={"csi": [[1.0, 1.0]] * 2}).status_code == 200


def test_policy_and_health_are_described(client: TestClient, policy: OnnxPolicy):
    description = client.get("/v1/policy").json()
    assert description["policy"] == "inversion"
    assert description["pmax_w"] == float(policy.scenario.max_power)
    assert description["workers"] is None
    assert description["scenario"]["pmax_dbw"] == -30
    assert description["limits"]["max_channels"] == 20
    assert description["units"]["power_w"] == "W"
    assert client.get("/healthz").json() == {"status": "ok"}


def test_metrics_count_responses_and_channels(policy: OnnxPolicy):
    with TestClient(create_app(policy)) as client:
        for _ in range(3):
            client.post("/v1/allocate", json={"csi": channels(2, 4).tolist()})
        client.post("/v1/allocate", json={"csi": 1})
        client.get("/an-invented-path")
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


def test_further_routers_need_the_token_except_for_the_page(policy: OnnxPolicy):
    router = APIRouter()
    for path in ("/", "/playground/main.js", "/v1/scene"):
        router.get(path)(lambda: "answer")
    with TestClient(create_app(policy, token=TOKEN, routers=[router])) as client:
        assert client.get("/v1/scene").status_code == 401
        assert client.get("/v1/scene", headers={"Authorization": f"Bearer {TOKEN}"}).is_success
        assert client.get("/").is_success
        assert client.get("/playground/main.js").is_success
        assert client.get("/playground/").status_code == 401


def rounds(count: int, workers: int) -> torch.Tensor:
    return make_channels(Scenario(workers=workers), count, seed=1).test


def as_schedule(phases: list[dict]) -> Schedule:
    durations = torch.tensor([phase["duration_s"] for phase in phases], dtype=torch.float64)
    powers = torch.tensor([phase["power_w"] for phase in phases], dtype=torch.float64)
    return Schedule(durations, powers)


@pytest.mark.parametrize("kappa", [None, 20])
def test_schedules_deliver_every_model(client: TestClient, kappa: float | None):
    csi = rounds(3, 4)
    body = {"csi": csi.tolist(), "bits": BITS, **({} if kappa is None else {"kappa": kappa})}
    response = client.post("/v1/schedule", json=body)
    assert response.status_code == 200, response.text
    for channel, phases in zip(csi, response.json()["phases"], strict=True):
        schedule = as_schedule(phases)
        upload = link.scheduled_upload(channel.double(), schedule, BITS, SCENARIO.bandwidth_hz)
        assert upload.finished.all()
        assert 0 < len(phases) <= 4
        assert (schedule.power <= SCENARIO.max_power).all()


def test_a_higher_price_of_energy_gives_a_slower_and_cheaper_schedule(client: TestClient):
    csi = rounds(1, 4)[0].tolist()
    fast, cheap = (
        as_schedule(
            client.post("/v1/schedule", json={"csi": csi, "bits": BITS, "kappa": kappa}).json()[
                "phases"
            ]
        )
        for kappa in (0, 1000)
    )
    assert fast.time_s < cheap.time_s
    assert fast.energy_j(SCENARIO.static_power) > cheap.energy_j(SCENARIO.static_power)


def test_schedules_accept_json_without_a_query(client: TestClient):
    body = json.dumps({"csi": [[1.0]], "bits": 1})
    sentence = refused(client.post("/v1/schedule", content=body), 415)
    assert sentence == "Content-Type must be application/json."
    response = client.post("/v1/schedule?workers=1", content=body, headers=JSON)
    assert refused(response, 422) == "The query must be empty."


def test_schedules_that_would_take_minutes_are_refused(policy: OnnxPolicy):
    with TestClient(create_app(policy)) as client:
        response = client.post("/v1/schedule", json={"csi": [[1.0] * 120] * 120, "bits": 1})
    assert "N·L³ of at most 1048576" in refused(response, 422)


def test_schedules_of_any_gains_are_complete_or_refused(client: TestClient):
    random = np.random.default_rng(3)
    statuses = set()
    for decades in (5, 20, 37):
        for workers in (1, 2, 6):
            gains = 10 ** random.uniform(-decades, decades, (workers, workers))
            response = client.post(
                "/v1/schedule", json={"csi": gains.tolist(), "bits": 1000, "kappa": 5}
            )
            statuses.add(response.status_code)
            if response.status_code == 200:
                schedule = as_schedule(response.json()["phases"])
                assert schedule.senders.all()
            else:
                assert "dynamic range" in refused(response, 422)
    assert 200 in statuses
