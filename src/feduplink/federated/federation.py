"""The federated loop: broadcast, train, upload, average, measure; with checkpoints.

A *simulation* is one federation: one policy in one run. Simulation p · runs + r is policy p in
run r.
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
    """How a comparison goes.

    Attributes:
        runs: independent repetitions, each with its own data, weights, channels and arrivals.
        rounds: of every run; None takes the task's.
        aggregation: how the server makes the next model: a registered name, as ``exact``,
            ``package.module:Class``, or an object.
        deadline_s: longest round, s; what is not sent by then is lost.
        packet_success: which SINR decides whether an upload arrives.
        present: workers in the federation round by round, (N, L) bool; None is everyone, always.
        checkpoint_every: rounds between checkpoints.

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
        """``present`` of a run with so many rounds and workers, (N, L) bool."""
        if self.present is None:
            return everyone(rounds, workers)
        if self.present.dtype != torch.bool or self.present.shape != (rounds, workers):
            raise InputError(
                f"present: {self.present.dtype} of shape {tuple(self.present.shape)}; accepted: "
                f"bool of shape {(rounds, workers)}, one row per round."
            )
        return self.present


#: Weights that train side by side on a CPU, five simulations of MNIST. Fewer cost more calls, more
#: push each other out of the cache: a step reads or writes four numbers per weight, 26 MB in all.
_CPU_WEIGHTS_AT_ONCE = 1_600_000
#: Share of a GPU's free memory that one batch of simulations may take.
_GPU_MEMORY_SHARE = 0.6
#: Of sequences, the share that weights may take in addition; and the copies of a simulation's
#: weights that there are at once: models, gradients, and what a part of a step takes of both.
_GPU_WEIGHTS_SHARE, _COPIES_OF_WEIGHTS = 0.2, 8


@dataclass(frozen=True)
class Capacity:
    """How much trains side by side.

    Attributes:
        simulations: at most so many.
        room: of sequences, steps in time of all of them together; a training step that takes more
            is done in parts.

    """

    simulations: int
    room: float = math.inf


def measured_capacity(
    device: torch.device,
    weights_per_simulation: int,
    *,
    train: Callable[[], object],
    measure: Callable[[], object],
    load: int | None,
) -> Capacity:
    """What fits the cache of a CPU, or the memory of a GPU, on which one simulation is tried.

    Sequences are drawn, so the simulations of another step or round may take several times the
    memory of the one tried. What does not depend on the draw is the memory per step in time: the
    trial's peak over its load, with everything that is there anyhow counted in. It says how many
    steps in time there is room for, and each training step is cut into parts to keep to it.

    Args:
        device: the CPU or GPU.
        weights_per_simulation: of the models of all workers.
        train: does a round of local training of one simulation.
        measure: evaluates its global model.
        load: of sequences, the steps in time of the largest training step; else None.
    """
    if device.type != "cuda":
        return Capacity(max(1, _CPU_WEIGHTS_AT_ONCE // weights_per_simulation))
    # What an earlier federation of this process has left behind is free as well.
    gc.collect()
    torch.cuda.empty_cache()
    free, _ = torch.cuda.mem_get_info(device)
    memory = _GPU_MEMORY_SHARE * free
    training = _peak_memory(device, train)
    measuring = _peak_memory(device, measure)
    if load is None:
        return Capacity(max(1, int(memory / max(training, measuring))))
    weights = 4 * _COPIES_OF_WEIGHTS * weights_per_simulation
    simulations = min(memory / measuring, _GPU_WEIGHTS_SHARE * free / weights)
    return Capacity(max(1, int(simulations)), memory * load / training)


def _peak_memory(device: torch.device, work: Callable[[], object]) -> int:
    """Bytes of GPU memory that ``work`` takes on top of what is taken, at least 1."""
    before = torch.cuda.memory_allocated(device)
    torch.cuda.reset_peak_memory_stats(device)
    work()
    peak = torch.cuda.max_memory_allocated(device) - before
    torch.cuda.empty_cache()
    return max(1, peak)


def side_by_side(policies: int, runs: int, at_once: int) -> Iterator[tuple[range, list[slice]]]:
    """Group the simulations: runs whose examples are gathered together, and who trains together.

    A group of simulations is contiguous: some runs of one policy, or all runs of some policies.
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
    """A comparison of policies by their effect on a federated task.

    All policies of a run share its data, first weights, minibatches and channels.

    Args:
        task: what is learned.
        policies: by name.
        scenario: the cell and its radio.
        settings: runs, rounds and rules; None takes the defaults.
        seed: of all random numbers.
        device: where workers are trained.
        recorded: channels of the rounds, (runs · rounds or more, L, L), run after run; None draws
            them from the scenario.

    Attributes:
        data: of every run.
        stack: the model that is trained.
        state: global models and all else that the next round depends on.

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
            raise InputError("policies: none given; accepted: one or more.")
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
        # Now, before any of them is used: an object of the user's own may change its attributes.
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
        """Go through the rounds that are left.

        Args:
            callbacks: called after every :class:`FinishedRound`.
            checkpoint: file to which the state is written every few rounds.
            resume: continue from the checkpoint; the run ends with the same figures as one that is
                not interrupted, bit for bit on a CPU.
        """
        if resume:
            if checkpoint is None:
                raise InputError("resume: accepted only with a checkpoint to resume from.")
            self.resume(checkpoint)
        title, earlier = f"federated learning of {self.task.name}", self._advances()
        with (
            own_arithmetic(self.device),
            track(title, self.rounds, "rounds", callbacks, earlier=earlier) as progress,
        ):
            fits = self.capacity()
            while len(self.state.errors) < self.rounds:
                self.run_round(len(self.state.errors), fits.simulations, fits.room)
                # First the checkpoint, which a failing callback must not cost.
                if checkpoint and len(self.state.errors) % self.settings.checkpoint_every == 0:
                    self.save(checkpoint)
                finished = self._finished(len(self.state.errors))
                progress.advance(finished.number, finished.mean_errors, finished)
        if checkpoint:
            self.save(checkpoint)
        return self.history()

    def history(self) -> FederatedHistory:
        """The rounds so far."""
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
        """Write a checkpoint."""
        self.state.write(path, self._identity)

    def resume(self, path: Path) -> None:
        """Continue from a checkpoint of the same comparison."""
        self.state = FederationState.read(path, self._identity, self.state)

    @functools.cached_property
    def _identity(self) -> dict[str, Any]:
        """What two checkpoints must agree on to be of one comparison."""
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
        """The steps that were reported for the rounds so far."""
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

    def run_round(self, number: int, at_once: int, room: float = math.inf) -> None:
        """Train, average and measure every simulation; ``at_once`` simulations train side by side.

        Sequences of more than ``room`` steps in time are trained on in parts. Seeds torch's global
        generator; :meth:`run` restores it.
        """
        someone = bool(self.present[number].any())
        batches = [self.round_batches(run, number) for run in range(self.settings.runs)]
        errors = torch.empty(len(self.state.uplink), dtype=torch.float64)
        for runs, groups in side_by_side(len(self.names), self.settings.runs, at_once):
            examples = self._gather(runs, batches)
            for simulations in groups:
                if someone:
                    adam = self.state.adam.take(simulations)
                    local = self._train(number, simulations, examples, adam, room)
                    self._aggregate(number, simulations, local)
                errors[simulations] = self._evaluate(runs, simulations)
        self.state.errors.append(errors.view(len(self.names), -1))

    def round_batches(self, run: int, number: int) -> RoundBatches:
        """The minibatches of all workers of a run in round ``number``."""
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
        room: float = math.inf,
    ) -> Weights:
        """The workers' models after the round's local work, (simulations, L, *shape)."""
        repeats = state.steps.numel() // len(examples.steps)
        self.stack.module.train()
        # For dropout and the like; nothing else in a round draws from the global generator.
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
            room,
        )

    def _aggregate(self, number: int, simulations: slice, local: Weights) -> None:
        """The server's step of some simulations; ``local`` (simulations, L, *shape)."""
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
        """Errors of some global models, each on its run's test set, (simulations,)."""
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
        """How much trains side by side here, tried with the largest round; nothing changes."""
        number, run, simulation = int(self.present.sum(-1).argmax()), range(1), slice(0, 1)
        examples = self._gather(run, [self.round_batches(0, number)])
        first = torch.tensor([0])  # an index copies the moments, which a slice would share
        return measured_capacity(
            self.device,
            self.scenario.workers * self.stack.weights_per_model,
            train=lambda: self._train(number, simulation, examples, self.state.adam.take(first)),
            measure=lambda: self._evaluate(run, simulation),
            load=examples.largest_load,
        )
