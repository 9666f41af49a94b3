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
from feduplink.export.onnx_policy import CHECKSUM_TO_COME, with_checksum
from feduplink.serving.app import create_app
from feduplink.serving.limits import Limits

with warnings.catch_warnings():  # Starlette has a new client of its own in mind
    warnings.simplefilter("ignore")
    from fastapi.testclient import TestClient

#: The float32 nearest to a Pmax of -30 dBW is above it.
SCENARIO = Scenario(workers=4, pmax_dbw=-30)


def powers_of(csi: np.ndarray) -> np.ndarray:
    """What the policy of these tests says: p_i = min(Pmax, 1 / Σ_j H_ij), W."""
    return np.minimum(float(SCENARIO.pmax_w), 1 / csi.sum(-1, dtype=np.float64))


def write_policy(file: Path, nodes: Sequence[Any] = (), **metadata: Any) -> Path:
    """The policy of these tests as a file like those that are exported, in a moment.

    ``nodes`` are computed instead of it, and ``metadata`` is said about it instead.
    """
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
            make.make_tensor("pmax", floats, [], [float(SCENARIO.pmax_w)]),
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
                    **CHECKSUM_TO_COME,
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
    file.write_bytes(with_checksum(model.SerializeToString()))
    return file


@pytest.fixture(scope="session")
def policy_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_policy(tmp_path_factory.mktemp("serving") / "policy.onnx")


@pytest.fixture(scope="session")
def policy(policy_file: Path) -> OnnxPolicy:
    return OnnxPolicy(policy_file)


@pytest.fixture(scope="session")
def client(policy: OnnxPolicy) -> Iterator[TestClient]:
    """Of a service with narrow limits, so that what is beyond them is small."""
    limits = Limits(max_body_bytes=20_000, max_workers=10, max_channels=20)
    with TestClient(create_app(policy, limits=limits)) as client:
        yield client


def channels(count: int, workers: int) -> np.ndarray:
    """CSI (count, L, L) float32 for powers on both sides of Pmax."""
    gains = 10 ** np.random.default_rng(0).uniform(0, 4, (count, workers, workers))
    return gains.astype(np.float32)
