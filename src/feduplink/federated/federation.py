"""The federated loop: broadcast, train, upload, average, measure; with checkpoints."""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from feduplink.device import usable_device
from feduplink.errors import InputError
from feduplink.federated.adam import AdamState
from feduplink.federated.aggregation import coefficients, combine_
from feduplink.federated.batches import RoundBatches, draw_batches
from feduplink.federated.checkpoint import Checkpoint, data_fingerprint, policy_fingerprint
from feduplink.federated.evaluation import evaluate
from feduplink.federated.history import FederatedHistory, FinishedRound, RunHistory
from feduplink.federated.lanes import Capacity, Rehearsal, measured_capacity, side_by_side
from feduplink.federated.local import train_locally
from feduplink.federated.minibatches import Minibatches
from feduplink.federated.models.stacked import ModelStack, Weights, stacked
from feduplink.federated.settings import FederationSettings
from feduplink.federated.task import Examples, FederatedData, Task
from feduplink.federated.task_fingerprint import task_fingerprint
from feduplink.federated.uplink import Outcome, Rounds, Sender, transmit
from feduplink.observing import Advance, Observer, track
from feduplink.policies.base import Policy
from feduplink.randomness import numpy_generator, stream_seed
from feduplink.scenario import Scenario

# Random streams are indexed by run and round; no run has this many rounds.
_ROUNDS_BOUND = 1 << 32


def federate(
    task: Task,
    policies: Mapping[str, Sender],
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
    from it and ends with the same figures as one left alone (bit for bit on a CPU). The
    ``observers`` are told of every :class:`FinishedRound`.
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
        policies: Mapping[str, Sender],
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
        self.present = settings.presence(self.rounds, scenario.workers)
        for name, policy in policies.items():
            if isinstance(policy, Policy) and policy.fixed_workers and not self.present.all():
                raise InputError(
                    f"present: {name} takes exactly {policy.fixed_workers} workers; accepted while "
                    "workers come and go: policies for any number of them."
                )
        self._policies = {name: policy_fingerprint(policy) for name, policy in policies.items()}
        self._data = self._draw_data()
        self._sizes = torch.stack([data.sizes for data in self._data])  # k_i, (runs, L)
        self._stack, self._weights = self._initial_models()
        self._task = task_fingerprint(
            task, self._stack, self._models(slice(0, 1)), self._data[0].test
        )
        self._adam = AdamState.fresh(self._weights, scenario.workers)
        self._outcomes = self._transmit(list(policies.values()))
        self._errors: list[Tensor] = []  # a round's errors, (policies, runs)

    def run(
        self, observers: Sequence[Observer] = (), checkpoint: Path | None = None
    ) -> FederatedHistory:
        """Go through the rounds that are left."""
        title, earlier = f"federated learning of {self.task.name}", self._advances()
        with (
            _own_arithmetic(self.device),
            track(title, self.rounds, "rounds", observers, earlier=earlier) as tracker,
        ):
            fits = self.capacity()
            while len(self._errors) < self.rounds:
                self.run_round(len(self._errors), fits.lanes, fits.room)
                # First the checkpoint, which no observer that fails should cost.
                if checkpoint and len(self._errors) % self.settings.checkpoint_every == 0:
                    self.save(checkpoint)
                finished = self._finished(len(self._errors))
                tracker.advance(finished.number, finished.mean_errors, finished)
        if checkpoint:
            self.save(checkpoint)
        return self.history()

    def history(self) -> FederatedHistory:
        """The rounds so far."""
        errors = torch.stack(self._errors, dim=-1).flatten(0, 1).tolist()  # a list per lane
        runs = self.settings.runs
        lanes = [
            RunHistory.of(lane, outcome)
            for lane, outcome in zip(errors, self._outcomes, strict=True)
        ]
        return FederatedHistory(
            self.task.name,
            self.task.metric_name,
            {name: tuple(lanes[p * runs : (p + 1) * runs]) for p, name in enumerate(self.names)},
        )

    def save(self, path: Path) -> None:
        """Write a checkpoint."""
        state = Checkpoint(self._weights, self._adam, self._errors, self._outcomes)
        state.write(path, self._identity)

    def resume(self, path: Path) -> None:
        """Continue from a checkpoint of the same comparison."""
        state = Checkpoint.read(path, self._identity, tuple(self._weights), self.device)
        self._weights, self._adam = state.weights, state.adam
        self._errors, self._outcomes = state.errors, state.outcomes

    @functools.cached_property
    def _identity(self) -> dict[str, Any]:
        """What two checkpoints must agree on to be of one comparison."""
        return {
            "task": self.task.name,
            "seed": self.seed,
            "scenario": self.scenario.model_dump(mode="json"),
            "runs": self.settings.runs,
            "rounds": self.rounds,
            "aggregation": self.settings.aggregation,
            "deadline": self.settings.deadline_s,
            "packet success": self.settings.packet_success,
            "presence": self.present.int().tolist(),
            "local work": asdict(self.task.work),
            "choice of policies": list(self.names),
            **{f"policy {name}": made for name, made in self._policies.items()},
            "data set": data_fingerprint(self._data),
            **self._task,
        }

    def _finished(self, number: int) -> FinishedRound:
        errors = (tuple(runs) for runs in self._errors[number - 1].tolist())
        return FinishedRound(number, dict(zip(self.names, errors, strict=True)))

    def _advances(self) -> list[Advance]:
        """What observers were told of the rounds so far."""
        finished = map(self._finished, range(1, len(self._errors) + 1))
        return [Advance(found.number, found.mean_errors, found) for found in finished]

    def _draw_data(self) -> list[FederatedData]:
        moved: dict[int, tuple[Examples, Examples]] = {}  # as given, and here; once if runs share

        def here(given: Examples) -> Examples:
            if id(given) not in moved:
                moved[id(given)] = given, given.to(self.device)
            return moved[id(given)][1]

        runs = []
        for run in range(self.settings.runs):
            data = self.task.data(numpy_generator(self.seed, "data", run))
            if len(data.shares) != self.scenario.workers:
                raise InputError(
                    f"workers: the task has data for {len(data.shares)} workers, the scenario "
                    f"has {self.scenario.workers}; accepted: the same number."
                )
            runs.append(FederatedData(here(data.pool), data.shares, here(data.test)))
        return runs

    def _initial_models(self) -> tuple[ModelStack, Weights]:
        """The model, and every lane's first weights: a run's are alike for all policies."""
        starts = []
        for run in range(self.settings.runs):
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(stream_seed(self.seed, "model", run))
                stack = ModelStack(self.task.model())
            starts.append(stack.initial())
        stack.module.to(self.device)
        lanes = stacked(starts * len(self.names))
        return stack, {name: weights.to(self.device) for name, weights in lanes.items()}

    @track("powers of all rounds")
    def _transmit(self, policies: list[Sender]) -> list[Outcome]:
        bits = self.scenario.model_bits(self._stack.weights_per_model)
        rounds = [
            Rounds.draw(self.scenario, self.present, seed=self.seed, run=run)
            for run in range(self.settings.runs)
        ]
        return [
            transmit(
                policy,
                channels,
                self.scenario,
                bits,
                self.settings.deadline_s,
                self.settings.packet_success,
            )
            for policy in policies
            for channels in rounds
        ]

    def run_round(self, number: int, at_once: int, room: float = math.inf) -> None:
        """Train, average and measure every lane; ``at_once`` lanes train side by side.

        Sequences of more than ``room`` steps in time are trained on in parts. Seeds torch's global
        generator; :meth:`run` restores it.
        """
        someone = bool(self.present[number].any())
        batches = [self._draw_batches(run, number) for run in range(self.settings.runs)]
        average = self._coefficients(number)
        errors = torch.empty(len(self._outcomes), dtype=torch.float64)
        for runs, groups in side_by_side(len(self.names), self.settings.runs, at_once):
            examples = self._gather(runs, batches)
            for lanes in groups:
                if someone:
                    local = self._train(number, lanes, examples, self._adam.lanes(lanes), room)
                    combine_(self._models(lanes), average[lanes], local)
                errors[lanes] = self._evaluate(runs, lanes)
        self._errors.append(errors.view(len(self.names), -1))

    def _draw_batches(self, run: int, number: int) -> RoundBatches:
        stream = numpy_generator(self.seed, "local-training", run * _ROUNDS_BOUND + number)
        # Alike in all runs: their long sequences then come together.
        order = numpy_generator(self.seed, "minibatch-order", number)
        present = self.present[number].numpy()
        return draw_batches(self._data[run], self.task.work, present, stream, order)

    def _gather(self, runs: range, batches: list[RoundBatches]) -> Minibatches:
        return Minibatches.gather([(self._data[run].pool, batches[run]) for run in runs])

    def _models(self, lanes: slice) -> Weights:
        """A view of the global models of some lanes, (lanes, *shape) by parameter."""
        return {name: weights[lanes] for name, weights in self._weights.items()}

    def _train(
        self,
        number: int,
        lanes: slice,
        examples: Minibatches,
        state: AdamState,
        room: float = math.inf,
    ) -> Weights:
        """The workers' models of some lanes after the round's local work, (lanes, L, *shape)."""
        repeats = state.steps.numel() // len(examples.steps)
        self._stack.module.train()
        # For dropout and the like; nothing else in a round draws from the global generator.
        seed = stream_seed(self.seed, "local-training", lanes.start * _ROUNDS_BOUND + number)
        torch.default_generator.manual_seed(seed)
        if self.device.type == "cuda":
            torch.cuda.default_generators[self.device.index].manual_seed(seed)
        return train_locally(
            self._stack, self.task, self._models(lanes), state, examples.repeated(repeats), room
        )

    def _coefficients(self, number: int) -> Tensor:
        """Of every worker's model in the server's average, (all lanes, L)."""
        arrived = torch.stack([outcome.arrived[number] for outcome in self._outcomes])
        if self.settings.aggregation == "published" and number == 0:
            arrived = self.present[0].expand_as(arrived)
        sizes = self._sizes.repeat(len(self.names), 1)
        return coefficients(sizes, arrived, self.settings.aggregation)

    def _evaluate(self, runs: range, lanes: slice) -> Tensor:
        """Errors of the global models of some lanes, each on its run's test set, (lanes,)."""
        self._stack.module.eval()
        tests = [self._data[run].test for run in runs]
        outputs = evaluate(self._stack, self._models(lanes), tests, self.task.evaluation_batch)
        errors = [
            float(self.task.metric(output, tests[lane % len(tests)].targets))
            for lane, output in enumerate(outputs)
        ]
        return torch.tensor(errors, dtype=torch.float64)

    def capacity(self) -> Capacity:
        """How much trains side by side here, by a lane in the largest round; nothing changes."""
        number, run, lane = int(self.present.sum(-1).argmax()), range(1), slice(0, 1)
        examples = self._gather(run, [self._draw_batches(0, number)])
        rehearsal = Rehearsal(
            train=lambda: self._train(number, lane, examples, self._adam.lanes(lane).clone()),
            measure=lambda: self._evaluate(run, lane),
            load=examples.largest_load,
        )
        return measured_capacity(
            self.device, self.scenario.workers * self._stack.weights_per_model, rehearsal
        )


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
