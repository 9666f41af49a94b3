"""Federated training loop: broadcast, local training, upload, aggregation and evaluation.

A *simulation* is one policy in one run; simulation p · runs + r is policy p in run r.
"""

from __future__ import annotations

import functools
import gc
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from pydantic import ConfigDict, Field, field_validator
from torch import Tensor

from feduplink.channels.recorded import recording_identity
from feduplink.errors import InputError
from feduplink.federated.evaluation import evaluate_models
from feduplink.federated.history import FederatedHistory, FinishedRound, RunHistory
from feduplink.federated.local_training import AdamState, train_locally
from feduplink.federated.minibatches import Minibatches, RoundBatches, draw_round, round_index
from feduplink.federated.models.stacked import Weights
from feduplink.federated.server import (
    Aggregation,
    Arrivals,
    aggregation_identity,
    find_aggregation,
    server_step_,
)
from feduplink.federated.state import FederationState, data_checksum, draw_runs, first_models
from feduplink.federated.tasks.task import Task, check_task
from feduplink.federated.uplink import (
    Rounds,
    UplinkRecord,
    UplinkRules,
    everyone,
    recorded_rounds,
    transmit,
)
from feduplink.policies import Policy
from feduplink.progress import Callback, Step, track
from feduplink.randomness import own_arithmetic, stream_seed
from feduplink.registry import object_path
from feduplink.scenario import Scenario
from feduplink.settings import ArrivalRule
from feduplink.storage.tensorfile import object_identity
from feduplink.validation import ValidatedModel, usable_device


class FederationSettings(ValidatedModel):
    """Settings of a federated comparison.

    Attributes:
        runs: number of independent runs with different data, weights, channels and arrivals.
        rounds: number of rounds per run; None uses that of the task.
        aggregation: aggregation rule: a registered name such as ``exact``,
            ``package.module:Class``, or an :class:`Aggregation`.
        deadline_s: deadline of a round, s; uploads that are incomplete by then are lost. None: no
            deadline.
        packet_success: rule that decides which SINR an upload is received at.
        present: workers in the federation in every round, (N, L) bool; None means all.
        checkpoint_every: number of rounds between checkpoints.

    >>> FederationSettings(runs=3, deadline_s=0.5).presence(rounds=1, workers=3)
    tensor([[True, True, True]])
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    runs: int = Field(default=1, ge=1)
    rounds: int | None = Field(default=None, ge=1)
    aggregation: str | Aggregation = "exact"
    deadline_s: float | None = Field(default=None, gt=0)
    packet_success: ArrivalRule = "worst-phase"
    present: Tensor | None = None
    checkpoint_every: int = Field(default=10, ge=1)

    @field_validator("aggregation")
    @classmethod
    def _found(cls, aggregation: str | Aggregation) -> Aggregation:
        return find_aggregation(aggregation)

    def presence(self, rounds: int, workers: int) -> Tensor:
        """Presence of the workers in every round of a run.

        Args:
            rounds: number of rounds N.
            workers: number of workers L.

        Returns:
            Presence, (N, L) bool.

        Raises:
            InputError: if ``present`` has another shape or type.
        """
        if self.present is None:
            return everyone(rounds, workers)
        if self.present.dtype != torch.bool or self.present.shape != (rounds, workers):
            raise InputError(
                f"present: {self.present.dtype} of shape {tuple(self.present.shape)}; accepted: "
                f"bool of shape {(rounds, workers)}, one row per round."
            )
        return self.present


#: Number of weights that are trained in one batch on a CPU, so that weights, gradients and moments
#: (16 bytes per weight, 26 MB in all) fit its cache.
_CPU_WEIGHTS_PER_BATCH = 1_600_000
#: Share of a GPU's free memory for one batch of simulations.
_GPU_MEMORY_SHARE = 0.6
#: For sequences, the share of a GPU's free memory for weights, and the number of copies of the
#: weights in memory: models, gradients, and both for the current part of a step.
_GPU_WEIGHTS_SHARE, _WEIGHT_COPIES = 0.2, 8


@dataclass(frozen=True)
class Capacity:
    """Maximum size of a batch of simulations.

    Attributes:
        simulations: maximum number of simulations.
        max_load: maximum number of sequence elements per training step; larger steps are computed
            in parts.

    """

    simulations: int
    max_load: float = math.inf


def measured_capacity(
    device: torch.device,
    weights_per_simulation: int,
    *,
    train: Callable[[], object],
    measure: Callable[[], object],
    load: int | None,
) -> Capacity:
    """Estimate how many simulations fit the cache of a CPU or the memory of a GPU.

    On a GPU, one simulation is run and its peak memory is measured. The lengths of sequences vary
    between rounds; for these the peak memory per sequence element gives ``max_load``.

    Args:
        device: CPU or GPU.
        weights_per_simulation: number of weights of all workers' models.
        train: runs the local training of one simulation for one round.
        measure: evaluates the global model of one simulation.
        load: number of sequence elements in the largest training step; None without sequences.

    Returns:
        The capacity, at least one simulation.
    """
    if device.type != "cuda":
        return Capacity(max(1, _CPU_WEIGHTS_PER_BATCH // weights_per_simulation))
    # Release the memory of earlier federations of this process.
    gc.collect()
    torch.cuda.empty_cache()
    free, _ = torch.cuda.mem_get_info(device)
    memory = _GPU_MEMORY_SHARE * free
    training = _peak_memory(device, train)
    measuring = _peak_memory(device, measure)
    if load is None:
        return Capacity(max(1, int(memory / max(training, measuring))))
    weights = 4 * _WEIGHT_COPIES * weights_per_simulation
    simulations = min(memory / measuring, _GPU_WEIGHTS_SHARE * free / weights)
    return Capacity(max(1, int(simulations)), memory * load / training)


def _peak_memory(device: torch.device, work: Callable[[], object]) -> int:
    """Peak GPU memory of ``work`` beyond the memory in use before it, bytes, at least 1."""
    before = torch.cuda.memory_allocated(device)
    torch.cuda.reset_peak_memory_stats(device)
    work()
    peak = torch.cuda.max_memory_allocated(device) - before
    torch.cuda.empty_cache()
    return max(1, peak)


def side_by_side(policies: int, runs: int, at_once: int) -> Iterator[tuple[range, list[slice]]]:
    """Divide the simulations into batches that are trained together.

    A batch is contiguous: some runs of one policy, or all runs of some policies.

    Args:
        policies: number of policies.
        runs: number of runs.
        at_once: maximum number of simulations per batch.

    Yields:
        Runs whose examples are gathered together, and the batches of their simulations.

    >>> list(side_by_side(policies=2, runs=3, at_once=3))
    [(range(0, 3), [slice(0, 3, None), slice(3, 6, None)])]
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


class Federation:
    """Comparison of policies on a federated learning task.

    All policies of a run share its data, initial weights, minibatches and channels.

    Args:
        task: federated learning task.
        policies: policies by name.
        scenario: the cell and its radio.
        settings: runs, rounds and rules; None uses the defaults.
        seed: seed of all random numbers.
        device: device of the local training.
        recorded: channels of all runs in order, (runs · rounds or more, L, L); None draws them
            from the scenario.

    Attributes:
        data: data of every run.
        stack: module of the models.
        state: global models and all other variables that the next round depends on.

    Raises:
        InputError: if task, policies, scenario and settings do not fit together.

    """

    def __init__(
        self,
        task: Task,
        policies: Mapping[str, Policy],
        scenario: Scenario,
        settings: FederationSettings | None = None,
        *,
        seed: int = 0,
        device: str | torch.device = "cpu",
        recorded: Tensor | None = None,
    ) -> None:
        if not policies:
            raise InputError("policies: no policy is given; accepted: one or more.")
        settings = settings or FederationSettings()
        self.task, self.scenario, self.settings, self.seed = task, scenario, settings, seed
        self.names = tuple(policies)
        self.rounds = settings.rounds or task.rounds
        self.device = usable_device(device)
        self._recorded = None
        if recorded is not None:
            needed = settings.runs * self.rounds
            self._recorded = recorded_rounds(recorded, needed, scenario.workers)
        self.present = settings.presence(self.rounds, scenario.workers)
        self._aggregation = find_aggregation(settings.aggregation)
        self.data = draw_runs(task, settings.runs, scenario.workers, seed, self.device)
        self._sizes = torch.stack([data.sizes for data in self.data])  # k_i, (runs, L)
        self.stack, weights = first_models(task, settings.runs, len(self.names), seed, self.device)
        check_task(task, self.stack, self.data[0].pool)
        self.state = FederationState.begin(
            weights, scenario.workers, self._transmit(policies), self._aggregation
        )
        layers = self.stack.module.named_modules()
        # Computed before any object is used, because a user's object may change its attributes.
        self._objects = {
            "aggregation": aggregation_identity(self._aggregation, self.state.model(0)),
            **{f"policy {name}": policy.identity() for name, policy in policies.items()},
            "model": {
                **object_identity(self.stack.module),
                "layers": {name: object_path(type(layer)) for name, layer in layers},
            },
            "loss": object_identity(task.loss),
            "metric": object_identity(task.metric),
        }

    def run(
        self,
        callbacks: Sequence[Callback] = (),
        checkpoint: Path | None = None,
        *,
        resume: bool = False,
    ) -> FederatedHistory:
        """Run the remaining rounds.

        Args:
            callbacks: callbacks of the run; ``detail`` of a step is a :class:`FinishedRound`.
            checkpoint: file to save checkpoints to, every ``checkpoint_every`` rounds; None: none.
            resume: whether to continue from the checkpoint. On a CPU, the results equal exactly
                those of an uninterrupted run.

        Returns:
            Histories of all policies.

        Raises:
            InputError: if the checkpoint is missing or belongs to another comparison.
        """
        if resume:
            if checkpoint is None:
                raise InputError("resume: no checkpoint is given; accepted only with a checkpoint.")
            self.resume(checkpoint)
        title, earlier = f"federated learning of {self.task.name}", self._advances()
        with (
            own_arithmetic(self.device),
            track(title, self.rounds, "rounds", callbacks, earlier=earlier) as progress,
        ):
            capacity = self.capacity()
            while len(self.state.errors) < self.rounds:
                self.run_round(len(self.state.errors), capacity.simulations, capacity.max_load)
                # The checkpoint comes first, so that it survives a failing callback.
                if checkpoint and len(self.state.errors) % self.settings.checkpoint_every == 0:
                    self.save(checkpoint)
                finished = self._finished(len(self.state.errors))
                progress.advance(finished.number, finished.mean_errors, finished)
        if checkpoint:
            self.save(checkpoint)
        return self.history()

    def history(self) -> FederatedHistory:
        """Histories of all policies over the rounds so far."""
        # One list per simulation.
        errors = torch.stack(self.state.errors, dim=-1).flatten(0, 1).tolist()
        runs = self.settings.runs
        found = [
            RunHistory.from_uplink(errors_so_far, record)
            for errors_so_far, record in zip(errors, self.state.uplink, strict=True)
        ]
        return FederatedHistory(
            self.task.name,
            self.task.metric_name,
            {name: tuple(found[p * runs : (p + 1) * runs]) for p, name in enumerate(self.names)},
        )

    def save(self, path: Path) -> None:
        """Save a checkpoint to ``path``."""
        self.state.write(path, self._identity)

    def resume(self, path: Path) -> None:
        """Restore the state from a checkpoint of the same comparison.

        Raises:
            InputError: if the file is missing, damaged or belongs to another comparison.
        """
        self.state = FederationState.read(path, self._identity, self.state)

    @functools.cached_property
    def _identity(self) -> dict[str, Any]:
        """Identity of the comparison, which a checkpoint must match, JSON-compatible."""
        return {
            "task": self.task.name,
            "seed": self.seed,
            "scenario": self.scenario.model_dump(mode="json"),
            "channel set": recording_identity(self._recorded),
            "runs": self.settings.runs,
            "rounds": self.rounds,
            "deadline": self.settings.deadline_s,
            "packet success": self.settings.packet_success,
            "presence": self.present.int().tolist(),
            "local work": asdict(self.task.work),
            "choice of policies": list(self.names),
            "data set": data_checksum(self.data),
            **self._objects,
        }

    def _finished(self, number: int) -> FinishedRound:
        errors = (tuple(runs) for runs in self.state.errors[number - 1].tolist())
        return FinishedRound(number, dict(zip(self.names, errors, strict=True)))

    def _advances(self) -> list[Step]:
        """Progress steps of the rounds so far."""
        finished = map(self._finished, range(1, len(self.state.errors) + 1))
        return [Step(found.number, found.mean_errors, found) for found in finished]

    @track("powers of all rounds")
    def _transmit(self, policies: Mapping[str, Policy]) -> list[UplinkRecord]:
        rules = UplinkRules(
            self.scenario,
            self.scenario.model_bits(self.stack.weights_per_model),
            self.settings.deadline_s,
            self.settings.packet_success,
        )
        rounds = [
            Rounds.draw(
                self.scenario, self.present, seed=self.seed, run=run, recorded=self._recorded
            )
            for run in range(self.settings.runs)
        ]
        return [
            transmit(policy, channels, rules) for policy in policies.values() for channels in rounds
        ]

    def run_round(self, number: int, at_once: int, max_load: float = math.inf) -> None:
        """Run one round of every simulation: local training, aggregation and evaluation.

        Seeds the global random generator of PyTorch, which :meth:`run` restores.

        Args:
            number: index of the round, from 0.
            at_once: maximum number of simulations that are trained together.
            max_load: maximum number of sequence elements per training step; larger steps are
                computed in parts.
        """
        any_present = bool(self.present[number].any())
        batches = [self.round_batches(run, number) for run in range(self.settings.runs)]
        errors = torch.empty(len(self.state.uplink), dtype=torch.float64)
        for runs, groups in side_by_side(len(self.names), self.settings.runs, at_once):
            examples = self._gather(runs, batches)
            for simulations in groups:
                if any_present:
                    adam = self.state.adam.take(simulations)
                    local = self._train(number, simulations, examples, adam, max_load)
                    self._aggregate(number, simulations, local)
                errors[simulations] = self._evaluate(runs, simulations)
        self.state.errors.append(errors.view(len(self.names), -1))

    def round_batches(self, run: int, number: int) -> RoundBatches:
        """Draw the minibatches of all workers of a run in round ``number``, from 0."""
        present = self.present[number].numpy()
        return draw_round(self.data[run], self.task.work, present, self.seed, run, number)

    def _gather(self, runs: range, batches: list[RoundBatches]) -> Minibatches:
        return Minibatches.gather([(self.data[run].pool, batches[run]) for run in runs])

    def _train(
        self,
        number: int,
        simulations: slice,
        examples: Minibatches,
        state: AdamState,
        max_load: float = math.inf,
    ) -> Weights:
        """Train the workers of some simulations; models (simulations, L, *shape) per parameter."""
        repeats = state.steps.numel() // len(examples.steps)
        self.stack.module.train()
        # For layers such as dropout, which draw from the global generator.
        seed = stream_seed(self.seed, "local-training", round_index(simulations.start, number))
        torch.default_generator.manual_seed(seed)
        if self.device.type == "cuda":
            torch.cuda.default_generators[self.device.index].manual_seed(seed)
        return train_locally(
            self.stack,
            self.task,
            self.state.models(simulations),
            state,
            examples.repeated(repeats),
            max_load,
        )

    def _aggregate(self, number: int, simulations: slice, local: Weights) -> None:
        """Update some global models from ``local`` models, (simulations, L, *shape)."""
        for place, simulation in enumerate(range(simulations.start, simulations.stop)):
            record = self.state.uplink[simulation]
            server_step_(
                self._aggregation,
                self.state.model(simulation),
                {name: models[place] for name, models in local.items()},
                Arrivals(
                    round=number,
                    sizes=self._sizes[simulation % self.settings.runs],
                    present=self.present[number],
                    arrived=record.arrived[number],
                    success=record.success[number],
                ),
                self.state.server[simulation],
            )

    def _evaluate(self, runs: range, simulations: slice) -> Tensor:
        """Test errors of some global models, (simulations,)."""
        self.stack.module.eval()
        tests = [self.data[run].test for run in runs]
        outputs = evaluate_models(
            self.stack, self.state.models(simulations), tests, self.task.evaluation_batch
        )
        errors = [
            float(self.task.metric(output, tests[simulation % len(tests)].targets))
            for simulation, output in enumerate(outputs)
        ]
        return torch.tensor(errors, dtype=torch.float64)

    def capacity(self) -> Capacity:
        """Measure the capacity of the device with the largest round; the state is not changed."""
        number, run, simulation = int(self.present.sum(-1).argmax()), range(1), slice(0, 1)
        examples = self._gather(run, [self.round_batches(0, number)])
        first = torch.tensor([0])  # a tensor index copies the moments; a slice is a view
        return measured_capacity(
            self.device,
            self.scenario.workers * self.stack.weights_per_model,
            train=lambda: self._train(number, simulation, examples, self.state.adam.take(first)),
            measure=lambda: self._evaluate(run, simulation),
            load=examples.largest_load,
        )
