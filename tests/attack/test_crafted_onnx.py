"""Crafted exported policies with the right checksum."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

onnx = pytest.importorskip("onnx", reason="the extra export is not installed")
pytest.importorskip("fastapi", reason="the extra serve is not installed")

from feduplink import InputError  # noqa: E402
from feduplink.export import OnnxPolicy  # noqa: E402
from serving.conftest import write_policy  # noqa: E402

from .forked import forked  # noqa: E402

node = onnx.helper.make_node
HEARD = node("ReduceSum", ["csi", "axis"], ["heard"], keepdims=0)


def test_the_valid_policy_is_accepted(tmp_path: Path):
    assert OnnxPolicy(write_policy(tmp_path / "a.onnx")).fixed_workers is None


@pytest.mark.parametrize(
    "metadata",
    [
        {"workers": "many"},
        {"workers": -3},
        {"workers": 10**9},
        {"workers": [4]},
        {"policy": None},
        {"policy": {"a": 1}},
        {"scenario": None},
        {"scenario": {"workers": 10**9}},
        {"scenario": {"pmax_dbw": 1e308}},
        {"scenario": {"pmax_dbw": -60.0}},  # below what it computes
    ],
)
def test_crafted_metadata_are_refused(metadata: dict[str, Any], tmp_path: Path):
    with pytest.raises(InputError, match="is not an exported policy"):
        OnnxPolicy(write_policy(tmp_path / "a.onnx", **metadata))


@pytest.mark.parametrize(
    "nodes",
    [
        [node("Identity", ["csi"], ["power_w"])],
        [HEARD, node("Neg", ["heard"], ["power_w"])],
        [HEARD, node("Identity", ["heard"], ["power_w"])],
        [HEARD, node("Sub", ["heard", "heard"], ["x"]), node("Div", ["x", "x"], ["power_w"])],
        [HEARD, node("Shape", ["heard"], ["power_w"])],
        [HEARD, node("Reciprocal", ["heard"], ["another"])],
        [HEARD, node("NoSuchOperator", ["heard"], ["power_w"])],
        [HEARD, node("Transpose", ["heard"], ["x"]), node("Min", ["x", "pmax"], ["power_w"])],
    ],
    ids=lambda nodes: " ".join(entry.op_type for entry in nodes),
)
def test_crafted_graphs_are_refused(nodes: list[Any], tmp_path: Path):
    file = write_policy(tmp_path / "a.onnx", nodes)
    with pytest.raises(InputError) as refusal:
        OnnxPolicy(file)
    sentence = str(refusal.value)
    assert "is not an exported policy" in sentence
    assert "\n" not in sentence
    assert len(sentence) < 1000
    ended = forked(["serve", "--policy", file, "--port", 0])
    assert ended.status == 2
    assert ended.said.startswith("feduplink: policy: ")
    assert ended.said.count("\n") == 1
