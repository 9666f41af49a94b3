# ruff: noqa: E402
from __future__ import annotations

import json
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("fastapi", reason="the extra serve is not installed")
onnx = pytest.importorskip("onnx", reason="the extra export is not installed")

from feduplink import Scenario
from feduplink.export import OnnxPolicy
from feduplink.export.onnx_policy import CHECKSUM_PLACEHOLDER, insert_checksum
from feduplink.serving import Limits
from feduplink.serving.app import create_app

with warnings.catch_warnings():  # Starlette deprecates httpx in its client
    warnings.simplefilter("ignore")
    from fastapi.testclient import TestClient

JSON = {"Content-Type": "application/json"}
BINARY = {"Content-Type": "application/octet-stream"}
TOKEN = "only-for-those-who-know-it"

#: The float32 nearest to a Pmax of -30 dBW is above it.
SCENARIO = Scenario(workers=4, pmax_dbw=-30)


def powers_of(csi: np.ndarray) -> np.ndarray:
    """Powers of the test policy, p_i = min(Pmax, 1 / Σ_j H_ij), W."""
    return np.minimum(float(SCENARIO.max_power), 1 / csi.sum(-1, dtype=np.float64))


def write_policy(file: Path, nodes: Sequence[Any] = (), **metadata: Any) -> Path:
    """Write the test policy as an exported file, or one with other nodes or metadata."""
    make, floats = onnx.helper, onnx.TensorProto.FLOAT
    graph = make.make_graph(
        nodes
        or [
            make.make_node("ReduceSum", ["csi", "axis"], ["heard"], keepdims=0),
            make.make_node("Reciprocal", ["heard"], ["wanted"]),
            make.make_node("Min", ["wanted", "pmax"], ["power_w"]),
        ],
        "policy",
        [make.make_tensor_value_info("csi", floats, ["N", "L", "L"])],
        [make.make_tensor_value_info("power_w", floats, ["N", "L"])],
        [
            make.make_tensor("axis", onnx.TensorProto.INT64, [1], [2]),
            make.make_tensor("pmax", floats, [], [float(SCENARIO.max_power)]),
        ],
    )
    model = make.make_model(graph, opset_imports=[make.make_opsetid("", 18)], ir_version=10)
    make.set_model_props(
        model,
        {
            "feduplink": json.dumps(
                {
                    "policy": "inversion",
                    "version": "0",
                    **CHECKSUM_PLACEHOLDER,
                    "scenario": SCENARIO.model_dump(mode="json"),
                    "workers": None,
                    "silence_w": 0.0,
                    "units": {"csi": "1/W", "power_w": "W"},
                    "multipliers": None,
                    **metadata,
                }
            )
        },
    )
    file.write_bytes(insert_checksum(model.SerializeToString()))
    return file


@pytest.fixture(scope="session")
def policy_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_policy(tmp_path_factory.mktemp("serving") / "policy.onnx")


@pytest.fixture(scope="session")
def policy(policy_file: Path) -> OnnxPolicy:
    return OnnxPolicy(policy_file)


@pytest.fixture(scope="session")
def client(policy: OnnxPolicy) -> Iterator[TestClient]:
    """A service with narrow limits, so that requests beyond them are small."""
    limits = Limits(max_body_bytes=20_000, max_workers=10, max_channels=20)
    with TestClient(create_app(policy, limits=limits)) as client:
        yield client


def refused(response: Any, status: int) -> str:
    """The sentence of a refusal."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/json"
    assert list(response.json()) == ["detail"]
    sentence = response.json()["detail"]
    assert sentence.endswith(".")
    assert "\n" not in sentence
    return sentence


def channels(count: int, workers: int) -> np.ndarray:
    """CSI (count, L, L) float32; 1 / Σ_j H_ij lies on both sides of Pmax."""
    gains = 10 ** np.random.default_rng(0).uniform(0, 4, (count, workers, workers))
    return gains.astype(np.float32)
