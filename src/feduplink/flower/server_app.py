"""Flower ServerApp of a federated task: FedAvg over the wireless uplink with evaluation."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable

import torch
from flwr.app import (
    ArrayRecord,
    ConfigRecord,
    Context,
    Message,
    MessageType,
    MetricRecord,
    RecordDict,
)
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

from feduplink.errors import InputError
from feduplink.federated import FederatedHistory, RunHistory
from feduplink.federated.evaluation import evaluate_models
from feduplink.flower.task_run import TaskResult, TaskRun, round_line
from feduplink.flower.wireless_grid import WirelessGrid
from feduplink.storage.files import only_writer

_LOG = logging.getLogger("flwr")
#: Metric with the weight of an upload.
_EXAMPLES = "num-examples"
#: Interval between two queries of the connected nodes, s.
_POLL_INTERVAL_S = 0.5

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Run the task of the run configuration and save its result.

    FedAvg weights the arriving models by their numbers of examples, which equals the exact
    average. A round without arrivals does not change the model. The run starts when one node per
    worker is connected and continues with the nodes that stay connected.

    Args:
        grid: Flower's grid.
        context: context of the run, whose configuration has the fields of :class:`TaskRun`.
    """
    run = TaskRun.from_run_config(context.run_config)
    with only_writer(run.out):
        TaskResult.remove(run.out)
        _federate(run, grid).write(run.out)


def _federate(run: TaskRun, grid: Grid) -> TaskResult:
    name, policy = run.make_policy()
    rounds = run.rounds or run.loaded_task.rounds
    uplink = WirelessGrid(
        grid,
        run.scenario,
        policy,
        rounds=rounds,
        seed=run.seed,
        deadline_s=run.deadline,
        packet_success=run.packet_success,
    )
    wait_for_nodes(grid, run.scenario.workers, run.timeout)
    evaluation = _Evaluation(run)
    strategy = TaskAverage(evaluation.first, evaluation.examples, run.timeout)
    result = strategy.start(
        uplink,
        evaluation.first,
        num_rounds=rounds,
        timeout=run.timeout,
        evaluate_fn=evaluation.evaluate,
    )
    uplink.add_metrics(result)
    task, record = run.loaded_task, uplink.record
    history = RunHistory.from_uplink(evaluation.errors, record)
    return TaskResult(
        FederatedHistory(task.name, task.metric_name, {name: (history,)}),
        torch.stack([found.present for found in uplink.history]),
        record,
        # Flower returns no arrays if no upload arrived in any round.
        (result.arrays or evaluation.first).to_torch_state_dict(),
    )


def wait_for_nodes(grid: Grid, count: int, timeout_s: float) -> list[int]:
    """Wait until enough nodes are connected.

    Args:
        grid: Flower's grid.
        count: minimum number of nodes.
        timeout_s: time limit, s.

    Returns:
        Ids of all connected nodes.

    Raises:
        InputError: if fewer nodes are connected at the time limit.
    """
    end = time.monotonic() + timeout_s
    while len(connected := list(grid.get_node_ids())) < count:
        if time.monotonic() > end:
            raise InputError(
                f"nodes: {len(connected)} connected within {timeout_s:g} s; accepted: at least "
                f"{count}. A run starts with one node per worker of the scenario and continues "
                "with at least one."
            )
        time.sleep(_POLL_INTERVAL_S)
    return connected


class _Evaluation:
    """Initial model of a run, and evaluation of its global models on the test set.

    Args:
        run: settings of the run.

    Attributes:
        first: initial global model.
        examples: total number of examples of all workers.
        errors: test error of the global model after each round so far.
    """

    def __init__(self, run: TaskRun) -> None:
        self._task = run.loaded_task
        data, self._stack, weights = run.data_and_model()
        self._test, self.examples = data.test, sum(map(len, data.shares))
        self._stack.module.eval()
        self.first = ArrayRecord({name: weight[0] for name, weight in weights.items()})
        self.errors: list[float] = []

    def evaluate(self, number: int, arrays: ArrayRecord) -> MetricRecord:
        """Compute the test error after round ``number``; 0 is before the first round."""
        model = {name: weight[None] for name, weight in arrays.to_torch_state_dict().items()}
        (outputs,) = evaluate_models(self._stack, model, [self._test], self._task.evaluation_batch)
        error = float(self._task.metric(outputs, self._test.targets))
        if number:
            self.errors.append(error)
            _LOG.info("%s", round_line(number, error))
        return MetricRecord({"error": error})


class TaskAverage(FedAvg):
    """FedAvg over all connected nodes that ignores uploads that are not a model of the task.

    Flower's FedAvg, in contrast, aborts the run if replies differ, accepts arrays of other shapes,
    and waits for nodes without a time limit.

    Args:
        model: model with the names, shapes and types that an upload must have.
        examples: total number of examples of all workers, which limits that of one worker.
        timeout_s: time limit for the first node to connect in a round, s.
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
        """Make one training message per connected node."""
        config["server-round"] = server_round
        content = RecordDict({self.arrayrecord_key: arrays, self.configrecord_key: config})
        return [
            Message(content, node, MessageType.TRAIN)
            for node in wait_for_nodes(grid, 1, self._timeout_s)
        ]

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Average the replies that are models of the task."""
        usable = []
        for reply in replies:
            error = None if reply.has_error() else self._model_error(reply.content)
            if error is None:
                usable.append(reply)
            else:
                node = reply.metadata.src_node_id
                _LOG.warning("the upload of node %d is ignored: %s", node, error)
        return super().aggregate_train(server_round, usable)

    def _model_error(self, content: RecordDict) -> str | None:
        """Reason why a reply is not a model of the task; None if it is one."""
        models = list(content.array_records.values())
        if len(models) != 1 or _layout(models[0]) != self._layout:
            return "its arrays are not those of the task's model"
        metrics = [entry for record in content.metric_records.values() for entry in record.items()]
        if len(metrics) != 1 or metrics[0][0] != _EXAMPLES or not isinstance(metrics[0][1], int):
            return f"its metrics are not a single integer {_EXAMPLES}"
        examples = metrics[0][1]
        if not 0 < examples <= self._examples:
            return f"{_EXAMPLES} is {examples}, outside 1 to {self._examples}"
        return None


def _layout(model: ArrayRecord) -> dict[str, tuple[tuple[int, ...], str]]:
    """Shapes and types of the arrays by name."""
    return {name: (array.shape, array.dtype) for name, array in model.items()}
