"""The Flower server of a federated task: FedAvg over the wireless uplink, measured every round."""

from __future__ import annotations

import torch
from flwr.app import ArrayRecord, Context, MetricRecord
from flwr.serverapp import Grid, ServerApp

from feduplink.federated.evaluation import evaluate
from feduplink.federated.state import draw_runs, first_models
from feduplink.flower.connected_nodes import connected_nodes
from feduplink.flower.task_average import TaskAverage
from feduplink.flower.task_progress import append_round, begin_rounds
from feduplink.flower.task_result import TaskResult
from feduplink.flower.task_run import TaskRun
from feduplink.flower.wireless_grid import WirelessGrid
from feduplink.storage.files import only_writer

_CPU = torch.device("cpu")

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Run the task that the run's configuration describes, and write its result.

    FedAvg weighs by examples, which over the workers that arrive is the exact average; a round
    without arrivals leaves the model as it is. The run begins when all workers are connected, and
    goes on with those that are left.
    """
    run = TaskRun.from_run_config(context.run_config)
    with only_writer(run.out):
        _federate(run, grid)


def _federate(run: TaskRun, grid: Grid) -> None:
    name, sender = run.sender()
    rounds = run.rounds or run.loaded_task.rounds
    uplink = WirelessGrid(
        grid,
        run.scenario,
        sender,
        rounds=rounds,
        seed=run.seed,
        deadline_s=run.deadline,
        packet_success=run.packet_success,
    )
    connected_nodes(grid, run.scenario.workers, run.timeout)
    measurement = _Measurement(run)
    strategy = TaskAverage(measurement.first, measurement.examples, run.timeout)
    result = strategy.start(
        uplink,
        measurement.first,
        num_rounds=rounds,
        timeout=run.timeout,
        evaluate_fn=measurement.evaluate,
    )
    uplink.add_metrics(result)
    # Empty if nothing ever arrived.
    arrays = result.arrays or measurement.first
    TaskResult.from_run(
        run.loaded_task, name, measurement.errors, uplink.history, arrays.to_torch_state_dict()
    ).write(run.out)


class _Measurement:
    """The first global model of a run, and the errors of those that follow on the held-out data.

    Attributes:
        first: the model before the first round.
        examples: of all workers together.
        errors: of the model after each round so far.

    """

    def __init__(self, run: TaskRun) -> None:
        self._task, self._out = run.loaded_task, run.out
        (data,) = draw_runs(self._task, 1, run.scenario.workers, run.seed, _CPU)
        self._test, self.examples = data.test, sum(map(len, data.shares))
        self._stack, weights = first_models(self._task, 1, 1, run.seed, _CPU)
        self._stack.module.eval()
        self.first = ArrayRecord({name: weight[0] for name, weight in weights.items()})
        self.errors: list[float] = []
        begin_rounds(self._out)

    def evaluate(self, number: int, arrays: ArrayRecord) -> MetricRecord:
        """For ``Strategy.start``."""
        model = {name: weight[None] for name, weight in arrays.to_torch_state_dict().items()}
        (outputs,) = evaluate(self._stack, model, [self._test], self._task.evaluation_batch)
        error = float(self._task.metric(outputs, self._test.targets))
        if number:  # 0 is before the first round
            self.errors.append(error)
            append_round(self._out, error)
        return MetricRecord({"error": error})
