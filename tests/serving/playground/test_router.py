"""Routes of the playground: responses and refusals."""

from __future__ import annotations

import copy
import json
import math

import pytest

from feduplink import Scenario
from feduplink.errors import InputError
from feduplink.serving.playground import playground_router

from .conftest import answer, httpx


@pytest.fixture(scope="module")
def start(playground: str) -> dict:
    return httpx.get(f"{playground}/v1/cell").json()


def test_the_first_scene_is_that_of_the_scenario(start: dict):
    scenario, scene = Scenario(), start["scene"]
    assert [worker["id"] for worker in scene["workers"]] == list(range(scenario.workers))
    assert scene["rate_min"] == scenario.rate_min
    assert start["stations"] == [{"x_m": 0.0, "y_m": 0.0}]


def test_an_answer_has_a_row_per_policy(playground: str, start: dict):
    found = answer(playground, start["scene"])
    names = [row["name"] for row in found["policies"]]
    assert names == ["max", "openloop", "orth", "pdx", "dual"]
    assert [row["name"] for row in found["orthogonal"]] == ["tdma", "ofdma"]
    assert found["absent"] == []
    assert found["multipliers"]["own"]
    assert found["multipliers"]["channels"] == 40_000


def test_another_setting_has_the_nearest_multipliers_at_first(playground, start):
    found = answer(playground, {**start["scene"], "rate_min": 0.75})["multipliers"]
    assert not found["own"]
    assert found["searching"]
    assert found["rate_min"] == 0.7


def test_the_maximum_number_of_workers_is_accepted(playground: str, start: dict):
    workers = [{"id": i, "x_m": 7.0 * i, "y_m": -5.0 * i} for i in range(64)]
    found = answer(playground, {**start["scene"], "workers": workers})
    assert all(len(row["power_w"]) == 64 for row in found["policies"])


def _changed(scene: dict, path: tuple, value: object) -> dict:
    scene = copy.deepcopy(scene)
    *way, last = path
    part = scene
    for step in way:
        part = part[step]
    part[last] = value
    return scene


@pytest.mark.parametrize(
    ("path", "value", "sentence"),
    [
        (("workers", 0, "x_m"), 500.5, "x_m must be -500 to 500; got 500.5"),
        (("workers", 0, "y_m"), -1e300, "y_m must be -500 to 500; got -1e+300"),
        (("workers", 0, "x_m"), math.nan, "finite number"),
        (("workers", 0, "x_m"), math.inf, "finite number"),
        (("workers", 0, "x_m"), "1", "valid number"),
        (("workers", 0, "x_m"), True, "valid number"),
        (("workers", 0, "id"), 64, "less than 64"),
        (("workers", 0, "id"), -1, "greater than or equal to 0"),
        (("workers", 0, "id"), 1, "different ids; got 8 workers with 7 ids"),
        (("workers", 0, "id"), 10**400, "id"),
        (("workers",), [], "at least 1 item"),
        (("workers",), [{"id": 0, "x_m": 0, "y_m": 0}] * 10_000, "at most 64 items"),
        (("workers",), None, "valid list"),
        (("pmax_dbw",), 6.0, "pmax_dbw must be -45 to 5; got 6"),
        (("interference",), 0.0, "interference must be 0.5 to 10; got 0"),
        (("rate_min",), -0.1, "rate_min must be 0 to 2; got -0.1"),
        (("ee_min",), 1e9, "ee_min must be 0 to 150; got 1e+09"),
        (("seed",), 2**32, "less than or equal to 4294967295"),
        (("seed",), 1.5, "valid integer"),
        (("kappa",), 101.0, "kappa must be 0 to 100; got 101"),
        (("csi",), [[1.0] * 8] * 7, "got 7 rows of 8 numbers"),
        (("csi",), [[1.0] * 7] * 7, "each of the 8 workers; got 7 rows of 7 numbers"),
        (("csi",), [[-1.0] * 8] * 8, "greater than 0"),
        (("csi",), [[math.nan] * 8] * 8, "finite number"),
        (("csi",), [[1e-39] * 8] * 8, "the range of float32"),
        (("csi",), [[1e39] * 8] * 8, "less than or equal to 34028"),
        (("colour",), "red", "Extra inputs are not permitted"),
    ],
)
def test_invalid_scenes_are_refused_in_one_sentence(playground, start, path, value, sentence):
    body = json.dumps(_changed(start["scene"], path, value))
    _refused(playground, body, sentence)


@pytest.mark.parametrize("body", ["", "{", "[]", "null", "7", '"a"', "[" * 100_000, "{}", "\xff"])
def test_invalid_bodies_are_refused_in_one_sentence(playground: str, body: str):
    _refused(playground, body, "")


def _refused(address: str, body: str, sentence: str) -> None:
    headers = {"Content-Type": "application/json"}
    response = httpx.post(f"{address}/v1/scene", content=body.encode("latin-1"), headers=headers)
    assert 400 <= response.status_code < 500
    detail = response.json()["detail"]
    assert isinstance(detail, str)
    assert sentence in detail
    assert 0 < len(detail) < 200
    assert "\n" not in detail


def test_the_page_loads_nothing_from_other_sites(playground: str):
    response = httpx.get(f"{playground}/")
    assert response.headers["content-type"] == "text/html; charset=utf-8"
    assert response.headers["content-security-policy"].startswith("default-src 'self';")
    assert "http" not in response.text
    assert "style=" not in response.text


@pytest.mark.parametrize("name", ["nothing.js", "..%2fscene.py", "%2e%2e/scene.py", "index.html/"])
def test_only_files_of_the_page_are_served(playground: str, name: str):
    response = httpx.get(f"{playground}/playground/{name}", follow_redirects=False)
    assert response.status_code in (307, 404)
    assert "import" not in response.text


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"workers": 2, "pmax_dbw": (-20, -10)}, "pmax_dbw must be one value for all workers"),
        ({"csi_noise": 1.0}, "csi_noise must be 0 in the playground"),
        ({"constraints": ["psr >= 0.5"]}, "constraints must be empty in the playground"),
    ],
)
def test_scenarios_without_interchangeable_workers_are_refused(changes, sentence):
    with pytest.raises(InputError, match=sentence):
        playground_router(Scenario(**changes))
