from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from feduplink.export.stacked_columns import stack_at_once

onnx = pytest.importorskip("onnx", reason="the extra export is not installed")
onnxruntime = pytest.importorskip("onnxruntime")


def stack(axis: int, *, rank: int = 2):
    """A model that stacks a, b and b + a along a new axis, and gives b's column, too."""
    make, floats = onnx.helper, onnx.TensorProto.FLOAT
    sizes = ["N", "L", "M"][:rank]
    columns = [
        make.make_node("Unsqueeze", [name, "axis"], [f"{name}_column"]) for name in ("a", "b", "c")
    ]
    names = ["a_column", "b_column", "c_column"]
    graph = make.make_graph(
        [
            make.make_node("Add", ["a", "b"], ["c"]),
            *columns,
            make.make_node("Concat", names, ["stacked"], axis=axis),
            make.make_node("Neg", ["b_column"], ["other"]),
        ],
        "stack",
        [make.make_tensor_value_info(name, floats, sizes) for name in ("a", "b")],
        [
            make.make_tensor_value_info(name, floats, [None] * (rank + 1))
            for name in ("stacked", "other")
        ],
        [make.make_tensor("axis", onnx.TensorProto.INT64, [1], [axis])],
        value_info=[make.make_tensor_value_info(name, floats, sizes) for name in ("a", "b", "c")],
    )
    return make.make_model(graph, opset_imports=[make.make_opsetid("", 18)], ir_version=10)


def outputs(model, *arrays: np.ndarray) -> list[np.ndarray]:
    session = onnxruntime.InferenceSession(model.SerializeToString())
    return session.run(None, dict(zip("ab", arrays, strict=True)))


@pytest.mark.parametrize("axis", [-1, 2])
def test_the_same_numbers_from_fewer_nodes(axis: int):
    model = stack(axis)
    a, b = np.random.default_rng(0).normal(size=(2, 4, 5)).astype(np.float32)
    before = outputs(model, a, b)
    stack_at_once(model)
    onnx.checker.check_model(model)
    for found, expected in zip(outputs(model, a, b), before, strict=True):
        np.testing.assert_array_equal(found, expected)
    assert np.array_equal(before[0], np.stack([a, b, a + b], axis=-1))
    kinds = Counter(node.op_type for node in model.graph.node)
    assert kinds == Counter(["Add", "Concat", "Reshape", "Transpose", "Unsqueeze", "Neg"])


@pytest.mark.parametrize(("axis", "rank"), [(0, 2), (1, 2), (2, 3), (-1, 3)])
def test_other_stacks_stay_as_they_are(axis: int, rank: int):
    model = stack(axis, rank=rank)
    before = model.SerializeToString()
    stack_at_once(model)
    assert model.SerializeToString() == before
