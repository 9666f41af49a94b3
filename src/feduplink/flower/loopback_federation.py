"""A federated comparison as Flower runs on this machine, one per policy, on one deployment."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from feduplink.federated import FederatedHistory
from feduplink.federated.history import FinishedRound
from feduplink.flower.flower_deployment import FlowerDeployment
from feduplink.flower.superlink_client import App
from feduplink.flower.task_progress import finished_rounds
from feduplink.flower.task_result import TaskResult
from feduplink.flower.task_run import TaskRun
from feduplink.progress import Callback, Progress, track

_CLIENT = "feduplink.flower.client_app"
_SERVER = "feduplink.flower.server_app"


@contextlib.contextmanager
def loopback_deployment(workers: int) -> Iterator[FlowerDeployment]:
    """A SuperLink with one SuperNode per worker, ready for tasks."""
    with contextlib.ExitStack() as exits:
        with track("start of the SuperLink and its SuperNodes"):
            deployment = exits.enter_context(FlowerDeployment(workers, preload=[_CLIENT]))
        yield deployment


def federate_on_loopback(
    deployment: FlowerDeployment,
    runs: Mapping[str, TaskRun],
    *,
    callbacks: Sequence[Callback] = (),
) -> FederatedHistory:
    """Run every policy's task in turn on a deployment with one SuperNode per worker.

    ``runs`` are by the name that the policy is to have, of one task with as many workers each;
    their ``out`` is not used: results are in the deployment's directory, which goes with it,
    whatever ends it. The ``callbacks`` are called after every
    :class:`~feduplink.federated.history.FinishedRound`.
    """
    results = deployment.directory / "results"
    found = {
        name: run_task(
            deployment,
            run.model_copy(update={"out": results / str(number)}),
            name=name,
            callbacks=callbacks,
        ).history
        for number, (name, run) in enumerate(runs.items())
    }
    first = next(iter(found.values()))
    policies = {name: next(iter(history.policies.values())) for name, history in found.items()}
    return FederatedHistory(first.task, first.metric_name, policies)


def run_task(
    deployment: FlowerDeployment, run: TaskRun, *, name: str, callbacks: Sequence[Callback] = ()
) -> TaskResult:
    """One Flower run of a task on a deployment with one SuperNode per worker."""
    config = run.run_config()
    app = App(f"{_SERVER}:app", f"{_CLIENT}:app", config, {})
    rounds = run.rounds or run.loaded_task.rounds
    title = f"federated learning of {run.loaded_task.name} with {name} over Flower"
    with track(title, rounds, "rounds", callbacks) as progress:
        deployment.run(app, config, watch=_Watch(progress, run.out, name))
    return TaskResult.read(run.out)


class _Watch:
    """Report the rounds that have finished since the last call."""

    def __init__(self, progress: Progress, directory: Path, name: str) -> None:
        self._progress, self._directory, self._name, self._told = progress, directory, name, 0

    def __call__(self) -> None:
        """Look, and tell."""
        errors = finished_rounds(self._directory)
        for number in range(self._told + 1, len(errors) + 1):
            finished = FinishedRound(number, {self._name: (errors[number - 1],)})
            self._progress.advance(number, finished.mean_errors, finished)
        self._told = len(errors)
