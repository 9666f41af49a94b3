"""The exported graph with fewer nodes: at one channel it is their number that takes time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import onnx

_LAST = -1


def stack_at_once(model: onnx.ModelProto) -> None:
    """Write every stack of K columns (N, L) to (N, L, K) with three nodes instead of K + 1.

    The exporter adds an axis to each column and joins them there. The same numbers come from
    joining the columns along L, (N, K·L), seeing that as (N, K, L), and exchanging the axes.
    """
    from onnx import helper, numpy_helper

    graph = model.graph
    by_output = {output: node for node in graph.node for output in node.output}
    ranks = {value.name: len(value.type.tensor_type.shape.dim) for value in graph.value_info}
    constants = {entry.name: entry for entry in graph.initializer}

    def column(name: str) -> str | None:
        """What the axis was added to, if ``name`` is a column (N, L) with a last axis added."""
        node = by_output.get(name)
        if node is None or node.op_type != "Unsqueeze" or ranks.get(node.input[0]) != 2:
            return None
        axes = constants.get(node.input[1])
        last = axes is not None and numpy_helper.to_array(axes).tolist() in ([_LAST], [2])
        return node.input[0] if last else None

    nodes: list[onnx.NodeProto] = []
    for node in graph.node:
        columns = [found for name in node.input if (found := column(name))]
        stack = node.op_type == "Concat" and node.attribute[0].i in (_LAST, 2)
        if not stack or len(columns) < len(node.input):
            nodes.append(node)
            continue
        joined, split, shape = (f"{node.output[0]}_{part}" for part in ("joined", "split", "shape"))
        sizes = numpy_helper.from_array(np.array([0, len(columns), _LAST]), shape)
        graph.initializer.append(sizes)
        nodes += [
            helper.make_node("Concat", columns, [joined], axis=_LAST),
            helper.make_node("Reshape", [joined, shape], [split]),
            helper.make_node("Transpose", [split], node.output, perm=[0, 2, 1]),
        ]
    used = {name for node in nodes for name in node.input}
    kept = [node for node in nodes if node.op_type != "Unsqueeze" or node.output[0] in used]
    del graph.node[:]
    graph.node.extend(kept)
