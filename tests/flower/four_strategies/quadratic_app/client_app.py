"""Worker i has the loss |w − t_i|² / 2 and k_i = 10 (i + 1) examples; training finds its minimum.

With FedProx's term µ |w − w_global|² / 2 the minimum is (t_i + µ w_global) / (1 + µ).
"""

from __future__ import annotations

import numpy as np
from flwr.app import Array, ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from feduplink.flower import worker_mod

WEIGHTS = 3

app = ClientApp(mods=[worker_mod])


def target(worker: int) -> np.ndarray:
    return np.arange(WEIGHTS) + 10.0 * (worker + 1)


@app.train()
def train(message: Message, context: Context) -> Message:
    worker = context.node_config["partition-id"]
    weights = message.content["arrays"]["weights"].numpy()
    mu = message.content["config"].get("proximal-mu", 0.0)
    found = Array((target(worker) + mu * weights) / (1 + mu))
    return reply(message, worker, weights, {"arrays": ArrayRecord({"weights": found})})


@app.evaluate()
def evaluate(message: Message, context: Context) -> Message:
    weights = message.content["arrays"]["weights"].numpy()
    return reply(message, context.node_config["partition-id"], weights, {})


def reply(message: Message, worker: int, weights: np.ndarray, arrays: dict) -> Message:
    loss = float(((weights - target(worker)) ** 2).sum() / 2)
    metrics = MetricRecord({"loss": loss, "num-examples": 10 * (worker + 1)})
    return Message(RecordDict({**arrays, "metrics": metrics}), reply_to=message)
