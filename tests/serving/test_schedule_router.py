from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from fastapi.testclient import TestClient

from feduplink import Scenario, link
from feduplink.channels import make_channels
from feduplink.export import OnnxPolicy
from feduplink.link import Schedule
from feduplink.serving.app import create_app

from .conftest import SCENARIO
from .test_app import refused

BITS = 1e6
JSON = {"Content-Type": "application/json"}


def csi_of(count: int, workers: int) -> torch.Tensor:
    return make_channels(Scenario(workers=workers), count, seed=1).test


def as_schedule(phases: list[dict]) -> Schedule:
    durations = torch.tensor([phase["duration_s"] for phase in phases], dtype=torch.float64)
    powers = torch.tensor([phase["power_w"] for phase in phases], dtype=torch.float64)
    return Schedule(durations, powers)


@pytest.mark.parametrize("kappa", [None, 20])
def test_the_phases_deliver_every_model(client: TestClient, kappa: float | None):
    csi = csi_of(3, 4)
    asked = {"csi": csi.tolist(), "bits": BITS, **({} if kappa is None else {"kappa": kappa})}
    response = client.post("/v1/schedule", json=asked)
    assert response.status_code == 200, response.text
    for channel, phases in zip(csi, response.json()["phases"], strict=True):
        schedule = as_schedule(phases)
        upload = link.scheduled_upload(channel.double(), schedule, BITS, SCENARIO.bandwidth_hz)
        assert upload.finished.all()
        assert 0 < len(phases) <= 4
        assert (schedule.power <= SCENARIO.pmax_w).all()


def test_a_price_of_energy_saves_energy(client: TestClient):
    csi = csi_of(1, 4)[0].tolist()
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


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"csi": [[1.0]]}, "no object with the fields csi and bits"),
        ({"csi": [[1.0]], "bits": 1, "when": 2}, "no object with the fields csi and bits"),
        ({"csi": [[1.0]], "bits": 0}, "bits: 0"),
        ({"csi": [[1.0]], "bits": -1}, "bits: not accepted"),
        ({"csi": [[1.0]], "bits": 1e16}, "bits: not accepted"),
        ({"csi": [[1.0]], "bits": True}, "bits: not accepted"),
        ({"csi": [[1.0]], "bits": "1"}, "bits: not accepted"),
        ({"csi": [[1.0]], "bits": 1, "kappa": -1}, "kappa: not accepted"),
        ({"csi": [[1.0]], "bits": 1, "kappa": None}, "kappa: not accepted"),
        ({"csi": [[0.0]], "bits": 1}, "negative or zero"),
        ({"csi": [[1.0, 2.0]], "bits": 1}, "not square"),
        ({"csi": [[1.0] * 11] * 11, "bits": 1}, "workers: 11"),
    ],
)
def test_what_is_refused(client: TestClient, body: dict, said: str):
    assert said in refused(client.post("/v1/schedule", json=body), 422)


def test_numbers_that_json_does_not_know(client: TestClient):
    for text in ('{"csi": [[1]], "bits": NaN}', '{"csi": [[1]], "bits": 1, "kappa": Infinity}'):
        assert "not accepted" in refused(
            client.post("/v1/schedule", content=text, headers=JSON), 422
        )


def test_other_content_and_queries_are_refused(client: TestClient):
    body = json.dumps({"csi": [[1.0]], "bits": 1})
    refused(client.post("/v1/schedule", content=body), 415)
    refused(client.post("/v1/schedule?workers=1", content=body, headers=JSON), 422)


def test_what_would_take_minutes_is_refused(policy: OnnxPolicy):
    with TestClient(create_app(policy)) as client:
        response = client.post("/v1/schedule", json={"csi": [[1.0] * 120] * 120, "bits": 1})
    assert "accepted for schedules" in refused(response, 422)


def test_any_gains_are_answered_or_refused(client: TestClient):
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
                assert "too far apart" in refused(response, 422)
    assert 200 in statuses
