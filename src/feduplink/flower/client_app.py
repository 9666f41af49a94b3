"""Flower ClientApp of a federated task: local training of one worker.

A node draws the data and minibatches of its worker from the seed of the run. Adam's moments are
stored in the state that Flower keeps for the node between rounds.
"""

from __future__ import annotations

import functools
import json

import numpy as np
import torch
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from feduplink.errors import InputError
from feduplink.federated.local_training import AdamState, train_locally
from feduplink.federated.minibatches import Minibatches, RoundBatches, draw_round, round_index
from feduplink.federated.models.stacked import ModelStack, Weights
from feduplink.federated.tasks.task import FederatedData
from feduplink.flower.task_run import CPU, TaskRun
from feduplink.flower.wireless_grid import worker_index, worker_mod
from feduplink.randomness import own_arithmetic, stream_seed

app = ClientApp(mods=[worker_mod])


@app.train()
def train(message: Message, context: Context) -> Message:
    """Train the global model on the worker's data for one round.

    Args:
        message: training message with the global model and the round.
        context: context of the node, with the run configuration and the worker's index.

    Returns:
        Reply with the local model and its number of examples.

    Raises:
        InputError: if the worker's index is not one of the scenario.
    """
    run, data, stack = _load(json.dumps(context.run_config))
    worker, workers = worker_index(context), len(data.shares)
    if worker >= workers:
        raise InputError(
            f"partition-id: {worker} is not accepted; accepted: 0 to {workers - 1}, the "
            "workers of the scenario."
        )
    number = message.content.config_records["config"]["server-round"]
    assert isinstance(number, int)
    received = message.content.array_records["arrays"].to_torch_state_dict()
    # In the order of the model's layers, which determines the rounding of the gradient's norm.
    model = {name: received[name][None] for name in stack.initial()}
    adam = _read_adam(context.state, model)
    task, row = run.loaded_task, number - 1
    drawn = draw_round(data, task.work, np.arange(workers) == worker, run.seed, 0, row)
    own = slice(worker, worker + 1)
    batches = RoundBatches(drawn.rows[own], drawn.weight[own], drawn.steps[own])
    stack.module.train()
    with own_arithmetic(CPU):
        # For layers such as dropout. Federation draws their random numbers for all workers at once,
        # so that its results differ for models with such layers.
        torch.manual_seed(stream_seed(run.seed, "local-training", round_index(worker, row)))
        local = train_locally(stack, task, model, adam, Minibatches.gather([(data.pool, batches)]))
    _write_adam(context.state, adam)
    content = RecordDict(
        {
            "arrays": ArrayRecord({name: weight[0, 0] for name, weight in local.items()}),
            "metrics": MetricRecord({"num-examples": len(data.shares[worker])}),
        }
    )
    return Message(content, reply_to=message)


@functools.lru_cache(maxsize=1)
def _load(config: str) -> tuple[TaskRun, FederatedData, ModelStack]:
    """Settings, data and model of a run; ``config`` is its configuration as JSON.

    Cached because they are equal in all rounds of a run.
    """
    run = TaskRun.from_run_config(json.loads(config))
    data, stack, _ = run.data_and_model()
    return run, data, stack


def _read_adam(state: RecordDict, model: Weights) -> AdamState:
    """Adam's moments after the node's last round, or zero moments before the first."""
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
