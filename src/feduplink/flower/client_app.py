"""Flower ClientApp of a federated task: one worker's local training.

A node draws its worker's data and minibatches from the run's seed. Adam's moments stay on the node,
in the state that Flower keeps for it between rounds.
"""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass

import numpy as np
import torch
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from feduplink.errors import InputError
from feduplink.federated.local_training import AdamState, train_locally
from feduplink.federated.minibatches import Minibatches, RoundBatches, draw_round, round_index
from feduplink.federated.models.stacked import ModelStack, Weights
from feduplink.federated.state import draw_runs, first_models
from feduplink.federated.tasks.task import FederatedData, Task
from feduplink.flower.task_run import TaskRun
from feduplink.flower.wireless_grid import worker_index, worker_mod
from feduplink.randomness import own_arithmetic, stream_seed

_CPU = torch.device("cpu")

app = ClientApp(mods=[worker_mod])


@app.train()
def train(message: Message, context: Context) -> Message:
    """Train the global model on this worker's data for one round; reply with the local model."""
    node = _Node.from_config(json.dumps(context.run_config))
    worker = worker_index(context)
    number = message.content.config_records["config"]["server-round"]
    assert isinstance(number, int)
    received = message.content.array_records["arrays"].to_torch_state_dict()
    # In the order of the model's layers, because the norm of a gradient is summed in this order.
    model = {name: received[name][None] for name in node.stack.initial()}
    adam = _read_adam(context.state, model)
    local = node.train(worker, number - 1, model, adam)
    _write_adam(context.state, adam)
    content = RecordDict(
        {
            "arrays": ArrayRecord(local),
            "metrics": MetricRecord({"num-examples": len(node.data.shares[worker])}),
        }
    )
    return Message(content, reply_to=message)


@dataclass(frozen=True)
class _Node:
    """Task, data and model of a run, which are the same in every round."""

    task: Task
    data: FederatedData
    stack: ModelStack
    seed: int

    @classmethod
    @functools.lru_cache(maxsize=1)
    def from_config(cls, config: str) -> _Node:
        """From a run's configuration as JSON; cached while Flower keeps the process."""
        run = TaskRun.from_run_config(json.loads(config))
        task = run.loaded_task
        (data,) = draw_runs(task, 1, run.scenario.workers, run.seed, _CPU)
        stack, _ = first_models(task, 1, 1, run.seed, _CPU)
        return cls(task, data, stack, run.seed)

    def train(self, worker: int, number: int, model: Weights, adam: AdamState) -> Weights:
        """The worker's model after round ``number`` from 0, (*shape); ``model`` (1, *shape)."""
        workers = len(self.data.shares)
        if worker >= workers:
            raise InputError(
                f"partition-id: {worker} is not accepted; accepted: 0 to {workers - 1}, the "
                "workers of the scenario."
            )
        drawn = draw_round(
            self.data, self.task.work, np.arange(workers) == worker, self.seed, 0, number
        )
        own = slice(worker, worker + 1)
        batches = RoundBatches(drawn.rows[own], drawn.weight[own], drawn.steps[own])
        self.stack.module.train()
        with own_arithmetic(_CPU):
            # For layers such as dropout. The local engine draws for all workers at once, so that
            # the two engines differ for models with such layers.
            torch.manual_seed(stream_seed(self.seed, "local-training", round_index(worker, number)))
            local = train_locally(
                self.stack,
                self.task,
                model,
                adam,
                Minibatches.gather([(self.data.pool, batches)]),
            )
        return {name: weight[0, 0] for name, weight in local.items()}


def _read_adam(state: RecordDict, model: Weights) -> AdamState:
    """Adam's state after the node's last round; a fresh one if there is none."""
    if "adam.steps" not in state:
        return AdamState.fresh(model, workers=1)
    mean, square, steps = (
        state.array_records[f"adam.{part}"].to_torch_state_dict()
        for part in ("mean", "square", "steps")
    )
    return AdamState(
        {name: mean[name] for name in model}, {name: square[name] for name in model}, steps["steps"]
    )


def _write_adam(state: RecordDict, adam: AdamState) -> None:
    state["adam.mean"] = ArrayRecord(adam.mean)
    state["adam.square"] = ArrayRecord(adam.square)
    state["adam.steps"] = ArrayRecord({"steps": adam.steps})
