"""The federated loop: broadcast, train, upload, average, measure; with checkpoints."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.nn import functional

from feduplink.errors import InputError
from feduplink.federated.aggregation import Aggregation, coefficients, combine
from feduplink.federated.batches import RoundBatches, draw_batches
from feduplink.federated.history import FederatedHistory, RunHistory
from feduplink.federated.local import AdamState, Minibatches, train_locally
from feduplink.federated.models.stacked import ModelStack
from feduplink.federated.task import Examples, FederatedData, Task
from feduplink.federated.uplink import Ideal, Outcome, Rounds, everyone, model_bits, transmit
from feduplink.policies.base import Policy
from feduplink.randomness import numpy_generator, stream_seed
from feduplink.scenario import Scenario
from feduplink.tensorfile import TensorFile, read_tensors, write_tensors

_CHECKPOINT = "federated checkpoint"

#: Weights that train side by side on a CPU. More only push each other out of the cache: Adam
#: reads and writes four numbers a weight.
_CPU_WEIGHTS_AT_ONCE = 1_600_000
#: Share of a GPU's free memory that one batch of lanes may take.
_GPU_MEMORY_SHARE = 0.6
# Random streams are indexed by run and round; no run has this many rounds.
_ROUNDS_BOUND = 1 << 32


@dataclass(frozen=True)
class FederationSettings:
    """How a comparison goes.

    Attributes:
        runs: independent repetitions, each with its own data, weights, channels and luck.
        rounds: of every run; None takes the task's.
        aggregation: the server's average. ``published`` also counts every worker as arrived in
            the first round, as the published code does.
        deadline_s: longest upload, s; later ones are lost.
        present: workers in the federation round by round, (N, L) bool; None is everyone, always.
        checkpoint_every: rounds between checkpoints.

    """

    runs: int = 1
    rounds: int | None = None
    aggregation: Aggregation = "exact"
    deadline_s: float | None = None
    present: Tensor | None = None
    checkpoint_every: int = 10

    def __post_init__(self) -> None:
        for name, value in (("runs", self.runs), ("checkpoint_every", self.checkpoint_every)):
            if value < 1:
                raise InputError(f"{name}: {value} is not accepted; accepted: 1 or more.")
        if self.rounds is not None and self.rounds < 1:
            raise InputError(f"rounds: {self.rounds} is not accepted; accepted: 1 or more.")
        if self.deadline_s is not None and not self.deadline_s > 0:
            raise InputError(f"deadline: {self.deadline_s} s is not accepted; accepted: above 0.")
        if self.aggregation not in ("exact", "published"):
            raise InputError(
                f"aggregation: {self.aggregation!r} is unknown; accepted: exact, published."
            )


class Observer(Protocol):
    """Told of every round."""

    def on_round(self, done: int, rounds: int, errors: dict[str, float]) -> None:
        """After round ``done`` of ``rounds``, with every policy's mean error over the runs."""


def federate(
    task: Task,
    policies: Mapping[str, Policy | Ideal],
    scenario: Scenario,
    settings: FederationSettings | None = None,
    *,
    seed: int = 0,
    device: str | torch.device = "cpu",
    observers: Sequence[Observer] = (),
    checkpoint: Path | None = None,
    resume: bool = False,
) -> FederatedHistory:
    """Compare power policies by what they do to a federated task.

    All policies of a run share its data, first weights, minibatches and channels. With
    ``checkpoint`` the state is written there every few rounds; with ``resume`` a run continues
    from it and ends with the same figures as one left alone (bit for bit on a CPU).
    """
    federation = Federation(
        task, policies, scenario, settings or FederationSettings(), seed=seed, device=device
    )
    if resume:
        if checkpoint is None:
            raise InputError("resume: accepted only with a checkpoint to resume from.")
        federation.resume(checkpoint)
    return federation.run(observers, checkpoint)


class Federation:
    """All lanes of a comparison, and where they stand.

    Lane p · runs + r is policy p in run r.
    """

    def __init__(
        self,
        task: Task,
        policies: Mapping[str, Policy | Ideal],
        scenario: Scenario,
        settings: FederationSettings,
        *,
        seed: int = 0,
        device: str | torch.device = "cpu",
    ) -> None:
        if not policies:
            raise InputError("policies: none given; accepted: one or more.")
        self.task, self.scenario, self.settings, self.seed = task, scenario, settings, seed
        self.names = tuple(policies)
        self.rounds = settings.rounds or task.rounds
        self.device = usable_device(device)
        self.present = _checked_presence(settings.present, self.rounds, scenario.workers)
        self._data = self._draw_data()
        self._stack, self._weights = self._initial_models()
        self._adam = AdamState.fresh(
            len(self._weights), scenario.workers, self._stack.weights_per_model, self.device
        )
        self._outcomes = self._transmit(list(policies.values()))
        self._errors: list[Tensor] = []  # a round's errors, (policies, runs)

    def run(
        self, observers: Sequence[Observer] = (), checkpoint: Path | None = None
    ) -> FederatedHistory:
        """Go through the rounds that are left."""
        with _own_arithmetic(self.device):
            at_once = self.lanes_at_once()
            while len(self._errors) < self.rounds:
                self.run_round(len(self._errors), at_once)
                self._report(observers)
                if checkpoint and len(self._errors) % self.settings.checkpoint_every == 0:
                    self.save(checkpoint)
        if checkpoint:
            self.save(checkpoint)
        return self.history()

    def history(self) -> FederatedHistory:
        """The rounds so far."""
        errors = torch.stack(self._errors, dim=-1).flatten(0, 1).tolist()  # a list a lane
        runs = self.settings.runs
        lanes = [
            _run_history(lane, outcome)
            for lane, outcome in zip(errors, self._outcomes, strict=True)
        ]
        return FederatedHistory(
            self.task.name,
            self.task.metric_name,
            {name: tuple(lanes[p * runs : (p + 1) * runs]) for p, name in enumerate(self.names)},
        )

    def save(self, path: Path) -> None:
        """Write everything the next round depends on.

        Random numbers of a round derive from the seed, the run and the round, so no generator
        needs saving; what was on the air is saved because a policy may hold a generator.
        """
        tensors = {
            "weights": self._weights,
            **{f"adam.{f.name}": getattr(self._adam, f.name) for f in fields(AdamState)},
            "errors": torch.stack(self._errors),
        }
        for lane, outcome in enumerate(self._outcomes):
            for name, tensor in outcome.tensors().items():
                tensors[f"outcome.{lane}.{name}"] = tensor
        write_tensors(path, _CHECKPOINT, TensorFile(tensors, self._identity()))

    def resume(self, path: Path) -> None:
        """Continue from a checkpoint of the same comparison."""
        file = read_tensors(path, _CHECKPOINT)
        for name, value in self._identity().items():
            if file.header.get(name) != value:
                raise InputError(
                    f"resume: {path} was made with another {name}; accepted: the one it was "
                    "started with."
                )
        saved = file.tensors
        self._weights = saved["weights"].to(self.device)
        self._adam = AdamState(
            *(saved[f"adam.{f.name}"].to(self.device) for f in fields(AdamState))
        )
        self._errors = list(saved["errors"].unbind(0))
        self._outcomes = [
            Outcome(**{f.name: saved[f"outcome.{lane}.{f.name}"] for f in fields(Outcome)})
            for lane in range(len(self._outcomes))
        ]

    def _identity(self) -> dict[str, Any]:
        """What two checkpoints must agree on to be of one comparison."""
        return {
            "task": self.task.name,
            "local work": asdict(self.task.work),
            "data sizes": [data.sizes.tolist() for data in self._data],
            "policies": list(self.names),
            "scenario": self.scenario.model_dump(mode="json"),
            "runs": self.settings.runs,
            "rounds": self.rounds,
            "aggregation": self.settings.aggregation,
            "deadline": self.settings.deadline_s,
            "presence": self.present.int().tolist(),
            "seed": self.seed,
        }

    def _report(self, observers: Sequence[Observer]) -> None:
        errors = dict(zip(self.names, self._errors[-1].mean(1).tolist(), strict=True))
        for observer in observers:
            observer.on_round(len(self._errors), self.rounds, errors)

    def _draw_data(self) -> list[FederatedData]:
        moved: list[tuple[FederatedData, Examples]] = []  # runs may share a pool; it moves once
        runs = []
        for run in range(self.settings.runs):
            data = self.task.data(numpy_generator(self.seed, "data", run))
            if len(data.shares) != self.scenario.workers:
                raise InputError(
                    f"workers: the task has data for {len(data.shares)} workers, the scenario "
                    f"has {self.scenario.workers}; accepted: the same number."
                )
            pool = next((pool for d, pool in moved if d.pool.inputs is data.pool.inputs), None)
            if pool is None:
                pool = data.pool.to(self.device)
                moved.append((data, pool))
            runs.append(FederatedData(pool, data.shares, data.test.to(self.device)))
        return runs

    def _initial_models(self) -> tuple[ModelStack, Tensor]:
        """The model, and the first weights (lanes, n): a run's are alike for all policies."""
        starts = []
        for run in range(self.settings.runs):
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(stream_seed(self.seed, "model", run))
                stack = ModelStack(self.task.model())
            starts.append(stack.initial())
        stack.module.to(self.device)
        return stack, torch.stack(starts).to(self.device).repeat(len(self.names), 1)

    def _transmit(self, policies: list[Policy | Ideal]) -> list[Outcome]:
        bits = model_bits(self._stack.weights_per_model)
        rounds = [
            Rounds.draw(self.scenario, self.present, seed=self.seed, run=run)
            for run in range(self.settings.runs)
        ]
        return [
            transmit(policy, channels, self.scenario, bits, self.settings.deadline_s)
            for policy in policies
            for channels in rounds
        ]

    def run_round(self, number: int, at_once: int) -> None:
        """Train, average and measure every lane; ``at_once`` lanes train side by side.

        Seeds torch's global generator; :meth:`run` restores it.
        """
        present = self.present[number].numpy()
        if present.any():
            batches = [self._draw_batches(run, number) for run in range(self.settings.runs)]
            for runs, groups in _side_by_side(len(self.names), self.settings.runs, at_once):
                examples = self._gather(runs, batches)
                for lanes in groups:
                    local = self._train(number, lanes, examples, self._adam.lanes(lanes))
                    self._weights[lanes] = combine(
                        self._coefficients(number, lanes), local, self._weights[lanes]
                    )
        self._errors.append(self._evaluate())

    def _draw_batches(self, run: int, number: int) -> RoundBatches:
        stream = numpy_generator(self.seed, "local-training", run * _ROUNDS_BOUND + number)
        return draw_batches(self._data[run], self.task.work, self.present[number].numpy(), stream)

    def _gather(self, runs: range, batches: list[RoundBatches]) -> Minibatches:
        """The examples of some runs, run by run and worker by worker."""
        steps = max(len(batches[run].rows) for run in runs)
        parts: list[tuple[Tensor, Tensor, Tensor]] = []
        for run in runs:
            drawn = batches[run]
            missing = (0, 0, 0, 0, 0, steps - len(drawn.rows))
            rows = functional.pad(drawn.rows, missing).to(self.device)
            weight = functional.pad(drawn.weight, missing).to(self.device)
            pool = self._data[run].pool
            inputs, targets = (
                values.index_select(0, rows.flatten()).view(*rows.shape, *values.shape[1:])
                for values in (pool.inputs, pool.targets)
            )
            parts.append((inputs, targets, weight))
        joined = (torch.cat(tensors, dim=1) for tensors in zip(*parts, strict=True))
        inputs, targets, weight = parts[0] if len(parts) == 1 else joined
        counts = [count for run in runs for count in batches[run].steps.tolist()]
        return Minibatches(inputs, targets, weight, counts)

    def _train(self, number: int, lanes: slice, examples: Minibatches, state: AdamState) -> Tensor:
        """The workers' models of some lanes after the round's local work, (lanes, L, n)."""
        start = self._weights[lanes]
        repeats = start.shape[0] * self.scenario.workers // len(examples.steps)
        self._stack.module.train()
        # For dropout and the like; nothing else in a round draws from the global generator.
        seed = stream_seed(self.seed, "local-training", lanes.start * _ROUNDS_BOUND + number)
        torch.default_generator.manual_seed(seed)
        if self.device.type == "cuda":
            torch.cuda.default_generators[self.device.index].manual_seed(seed)
        return train_locally(self._stack, self.task, start, state, examples.repeated(repeats))

    def _coefficients(self, number: int, lanes: slice) -> Tensor:
        """Of every worker's model in the server's average, (lanes, L)."""
        arrived = torch.stack([outcome.arrived[number] for outcome in self._outcomes[lanes]])
        if self.settings.aggregation == "published" and number == 0:
            arrived = self.present[0].expand_as(arrived)
        runs = self.settings.runs
        sizes = torch.stack(
            [self._data[lane % runs].sizes for lane in range(lanes.start, lanes.stop)]
        )
        return coefficients(sizes, arrived, self.settings.aggregation).to(self.device)

    @torch.no_grad()
    def _evaluate(self) -> Tensor:
        """Error of every lane's global model on its run's test set, (policies, runs)."""
        self._stack.module.eval()
        errors = torch.empty(len(self.names), self.settings.runs, dtype=torch.float64)
        by_policy = self._weights.view(*errors.shape, -1)
        for run, data in enumerate(self._data):
            weights = by_policy[:, run].contiguous()
            outputs = torch.cat(
                [
                    self._stack(weights, inputs.expand(len(weights), *inputs.shape))
                    for inputs in torch.split(data.test.inputs, self.task.evaluation_batch)
                ],
                dim=1,
            )
            for policy, output in enumerate(outputs):
                errors[policy, run] = float(self.task.metric(output, data.test.targets))
        return errors

    def lanes_at_once(self) -> int:
        """How many lanes train side by side: what fits the cache, or the GPU's memory."""
        if self.device.type != "cuda":
            return max(1, _CPU_WEIGHTS_AT_ONCE // self._adam.mean[0].numel())
        free, _ = torch.cuda.mem_get_info(self.device)
        return max(1, int(_GPU_MEMORY_SHARE * free / max(1, self._memory_of_a_lane())))

    def _memory_of_a_lane(self) -> int:
        """Bytes of GPU memory that training one lane takes, by a rehearsal on copies."""
        number = int(self.present.sum(-1).argmax())
        examples = self._gather(range(1), [self._draw_batches(0, number)])
        lane = slice(0, 1)
        before = torch.cuda.memory_allocated(self.device)
        torch.cuda.reset_peak_memory_stats(self.device)
        copies = AdamState(
            *(getattr(self._adam.lanes(lane), f.name).clone() for f in fields(AdamState))
        )
        self._train(number, lane, examples, copies)
        peak = torch.cuda.max_memory_allocated(self.device) - before
        torch.cuda.empty_cache()
        return peak


@contextlib.contextmanager
def _own_arithmetic(device: torch.device) -> Iterator[None]:
    """Leave torch's global generator and precision as they were.

    On a GPU products round their factors to TF32, which training does not feel.
    """
    precision = torch.get_float32_matmul_precision()
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        if device.type == "cuda":
            torch.set_float32_matmul_precision("high")
        try:
            yield
        finally:
            torch.set_float32_matmul_precision(precision)


def usable_device(device: str | torch.device) -> torch.device:
    """The device of this name if it is there."""
    try:
        chosen = torch.device(device)
    except RuntimeError:
        raise InputError(f"device: {device!r} is unknown; accepted: cpu, cuda, cuda:N.") from None
    if chosen.type not in ("cpu", "cuda"):
        raise InputError(f"device: {device!r} is not supported; accepted: cpu, cuda, cuda:N.")
    if chosen.type == "cuda":
        if (chosen.index or 0) >= torch.cuda.device_count():
            raise InputError(f"device: {device!r} is not on this machine; accepted here: cpu.")
        return torch.device("cuda", chosen.index or 0)
    return chosen


def _side_by_side(policies: int, runs: int, at_once: int) -> Iterator[tuple[range, list[slice]]]:
    """Group the lanes: runs whose examples are gathered together, and lanes that train together.

    A group of lanes is contiguous: some runs of one policy, or all runs of some policies.
    """
    if at_once >= runs:
        some = at_once // runs
        groups = [slice(p * runs, min(p + some, policies) * runs) for p in range(0, policies, some)]
        yield range(runs), groups
        return
    for start in range(0, runs, at_once):
        chosen = range(start, min(start + at_once, runs))
        yield (
            chosen,
            [slice(p * runs + chosen.start, p * runs + chosen.stop) for p in range(policies)],
        )


def _checked_presence(present: Tensor | None, rounds: int, workers: int) -> Tensor:
    if present is None:
        return everyone(rounds, workers)
    if present.dtype != torch.bool or present.shape != (rounds, workers):
        raise InputError(
            f"present: {present.dtype} of shape {tuple(present.shape)}; accepted: bool of shape "
            f"{(rounds, workers)}, a row a round."
        )
    return present


def _run_history(errors: list[float], outcome: Outcome) -> RunHistory:
    done = len(errors)

    def or_none(values: Tensor) -> tuple[float | None, ...]:
        return tuple(None if value != value else value for value in values[:done].tolist())

    return RunHistory(
        error=tuple(errors),
        arrivals=tuple(outcome.arrived[:done].sum(-1).tolist()),
        transmitting=tuple(outcome.transmitting[:done].sum(-1).tolist()),
        airtime_s=or_none(outcome.airtime_s),
        energy_j=or_none(outcome.energy_j),
        sent_bytes=tuple(round(value) for value in outcome.sent_bytes[:done].tolist()),
    )
