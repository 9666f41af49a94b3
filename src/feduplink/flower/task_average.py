"""Federated averaging for a task whose model the server knows: nothing else is averaged."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from flwr.app import ArrayRecord, ConfigRecord, Message, MessageType, MetricRecord, RecordDict
from flwr.serverapp import Grid
from flwr.serverapp.strategy import FedAvg

from feduplink.flower.connected_nodes import connected_nodes

_LOG = logging.getLogger("flwr")
_EXAMPLES = "num-examples"


class TaskAverage(FedAvg):
    """FedAvg over all nodes that are connected, without what is no model of the task.

    Flower's own would end the run at a reply that is unlike the others, stretch arrays of another
    shape to fit, and wait without end where no node is left.

    Args:
        model: what an upload has to be like.
        examples: of all workers together; no worker has more.
        timeout_s: how long a round waits for a first node.

    """

    def __init__(self, model: ArrayRecord, examples: int, timeout_s: float) -> None:
        super().__init__(
            fraction_evaluate=0.0,
            min_train_nodes=1,
            min_available_nodes=1,
            weighted_by_key=_EXAMPLES,
        )
        self._layout, self._examples, self._timeout_s = _layout(model), examples, timeout_s

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """A message to every node that is connected."""
        config["server-round"] = server_round
        content = RecordDict({self.arrayrecord_key: arrays, self.configrecord_key: config})
        return [
            Message(content, node, MessageType.TRAIN)
            for node in connected_nodes(grid, 1, self._timeout_s)
        ]

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """The average of the models among the replies."""
        usable = []
        for reply in replies:
            fault = None if reply.has_error() else self._fault_of(reply.content)
            if fault is None:
                usable.append(reply)
            else:
                node = reply.metadata.src_node_id
                _LOG.warning("the upload of node %d is left out: %s", node, fault)
        return super().aggregate_train(server_round, usable)

    def _fault_of(self, content: RecordDict) -> str | None:
        """Why a reply is no model of the task; None if it is one."""
        models = list(content.array_records.values())
        if len(models) != 1 or _layout(models[0]) != self._layout:
            return "its arrays are not those of the task's model"
        metrics = [entry for record in content.metric_records.values() for entry in record.items()]
        if len(metrics) != 1 or metrics[0][0] != _EXAMPLES or not isinstance(metrics[0][1], int):
            return f"its metrics are not {_EXAMPLES} alone, a whole number"
        examples = metrics[0][1]
        if not 0 < examples <= self._examples:
            return f"{_EXAMPLES} {examples} of {self._examples}"
        return None


def _layout(model: ArrayRecord) -> dict[str, tuple[tuple[int, ...], str]]:
    """Shape and type of the arrays by name."""
    return {name: (array.shape, array.dtype) for name, array in model.items()}
