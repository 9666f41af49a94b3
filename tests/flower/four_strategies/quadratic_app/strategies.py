"""Three strategies of Flower's as they are, and one that derives from none of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.serverapp import Grid
from flwr.serverapp.strategy import FedAdam, FedAvg, FedProx, Strategy


class MedianStrategy(Strategy):
    """The median of what arrives, unweighted; says nothing of the round, and evaluates nowhere."""

    def summary(self) -> None:
        pass

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        content = RecordDict({"arrays": arrays, "config": ConfigRecord()})
        for node in grid.get_node_ids():
            yield Message(content, node, "train")

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        contents = [reply.content for reply in replies if reply.has_content()]
        if not contents:
            return None, None
        found = np.median([content["arrays"]["weights"].numpy() for content in contents], axis=0)
        loss = float(np.median([content["metrics"]["loss"] for content in contents]))
        return ArrayRecord({"weights": Array(found)}), MetricRecord({"median-loss": loss})

    def configure_evaluate(self, *args: object) -> Iterable[Message]:
        return []

    def aggregate_evaluate(self, *args: object) -> MetricRecord | None:
        return None


STRATEGIES: dict[str, Callable[[], Strategy]] = {
    "FedAvg": FedAvg,
    "FedProx": lambda: FedProx(proximal_mu=0.5, fraction_evaluate=0.0),
    "FedAdam": lambda: FedAdam(fraction_evaluate=0.0),
    "median": MedianStrategy,
}
