"""Compare policies on the same channels.

>>> import feduplink as fu
>>> result = fu.evaluate(fu.Scenario(workers=3), ["max"], channels_per_split=50)
>>> result["max"].participation
1.0
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from feduplink.progress import track, track_each
from feduplink.scenario import Scenario
from feduplink.settings import CHANNELS_PER_SPLIT
from feduplink.tables import TextTable
from feduplink.workflows.options import (
    BudgetS,
    ChannelsOption,
    Device,
    MaxBoxes,
    PoliciesOption,
    Reading,
    Seed,
    TestChannelsPerSplit,
    workflow,
)
from feduplink.workflows.result import Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from torch import Tensor

    from feduplink.channels import Channels
    from feduplink.judgement import Judgement
    from feduplink.link import Schedule
    from feduplink.optimum import Optimum
    from feduplink.policies import Policy
    from feduplink.problem import Problem
    from feduplink.reporting.style import StyledFigure


@dataclass(frozen=True, repr=False)
class Outcome:
    """A policy on the channels of an evaluation.

    Attributes:
        power: transmit powers, (N, L), W; under a schedule their means while a worker transmits.
        judgement: the measures that are reported together, and the verdict.
        made_for: fields in which the policy was made for another scenario, with both values.
        schedule: the phases of the N rounds, of a policy that schedules.
    """

    power: Tensor
    judgement: Judgement
    made_for: dict[str, tuple[Any, Any]] = field(default_factory=dict)
    schedule: Schedule | None = None

    @property
    def objective(self) -> float:
        """g(E[f]), the utility of the mean objective measure."""
        return self.judgement.objective

    @property
    def weighted_per(self) -> float:
        """Σ ω PER / Σ ω over the worker-rounds that transmit."""
        return self.judgement.weighted_per

    @property
    def participation(self) -> float:
        """Share of worker-rounds with a power above zero."""
        return self.judgement.participation

    @property
    def verdict(self) -> str:
        """``feasible``, ``infeasible``, ``inconclusive``, or ``silent`` if nobody transmits."""
        return str(self.judgement.verdict)

    @property
    def verdict_channels(self) -> int:
        """Number of channels that verdict and margin rest on."""
        return self.judgement.verdict_channels

    @property
    def margin(self) -> float:
        """Margin of the worst worker and constraint, as a share of its threshold."""
        return self.judgement.margin

    @property
    def margin_ci(self) -> tuple[float, float]:
        """Confidence interval of the margin; the intervals of all margins hold with 95 %."""
        half = self.judgement.margin_ci
        return self.margin - half, self.margin + half

    def __repr__(self) -> str:
        """The measures on one line."""
        channels, workers = self.power.shape
        return f"Outcome({channels} channels of {workers} workers, {self.judgement!r})"

    def as_metrics(self) -> dict[str, Any]:
        """The policy's entry in ``metrics.json``."""
        entry: dict[str, Any] = dict(self.judgement.as_metrics())
        return {**entry, "made_for": self.made_for} if self.made_for else entry


@dataclass(frozen=True, repr=False, eq=False)
class Evaluation(Result, Mapping[str, Outcome]):
    """Policies on the same test channels, by name.

    Attributes:
        scenario: the cell, the radio and the problem.
        outcomes: one per policy.
        optimum: the optimum on these channels, if it was asked for.
        channels: the entry ``channels`` of ``metrics.json``: where the channels come from.
        origin: the same in words.
        notes: sentences for the reader on the channels, without capital and full stop.
        seed: of all random numbers.
    """

    kind = "evaluation"
    files = "comparison.md, comparison.png, power-histogram.png, metrics.json"
    table_file = "comparison.md"
    parts = (Outcome,)

    scenario: Scenario
    outcomes: Mapping[str, Outcome]
    optimum: Optimum | None = None
    channels: Mapping[str, Any] = field(default_factory=dict)
    origin: str = ""
    notes: tuple[str, ...] = ()
    seed: int = 0

    def __getitem__(self, name: str) -> Outcome:
        return self.outcomes[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.outcomes)

    def __len__(self) -> int:
        return len(self.outcomes)

    @property
    def judgements(self) -> dict[str, Judgement]:
        """The judgement of each policy."""
        return {name: outcome.judgement for name, outcome in self.items()}

    @property
    def powers(self) -> dict[str, Tensor]:
        """Transmit powers of each policy, (N, L), W."""
        return {name: outcome.power for name, outcome in self.items()}

    def findings(self) -> list[str]:
        """The best policies, the bound, and who loses or silences most."""
        judged = self.judgements
        found = [*_best_policies(judged), *_losses(judged)]
        if self.optimum is not None and math.isfinite(self.optimum.upper_bound):
            bound = self.optimum.upper_bound
            found.insert(
                1,
                "No feasible policy with one power per worker and round exceeds "
                f"{bound:.4f} on these channels, if arrivals are decided by the SINR with all "
                "senders active (certified upper bound).",
            )
        return found

    def remarks(self) -> list[str]:
        """The notes, and a sentence on each policy that was made for another scenario."""
        from feduplink.policies.store import made_for_sentence

        made_for = {name: o.made_for for name, o in self.items() if o.made_for}
        return [*self.notes, *(made_for_sentence(name, d) for name, d in made_for.items())]

    def table(self) -> TextTable:
        """A row per policy, and one for the optimum if there is one."""
        from feduplink.reporting.comparison import comparison_table

        return comparison_table(self.judgements, self.scenario, self.optimum, self.remarks())

    def plot(self, ax: Axes | None = None) -> Axes:
        """The objective of each policy; without ``ax``, participation and constraints beside it."""
        from feduplink.reporting.comparison import plot_comparison, plot_objectives

        if ax is not None:
            plot_objectives(ax, self.judgements, self.optimum)
            return ax
        axes: Axes = plot_comparison(self.judgements, self.optimum).axes[0]
        return axes

    def records(self) -> Iterator[dict[str, Any]]:
        """Columns policy, worker, measure, value; the worker is None for a value of all.

        Constrained measures are means over the channels of the verdict, all others over the test
        channels.
        """
        for name, outcome in self.items():
            judged = outcome.judgement
            yield {"policy": name, "worker": None, "measure": "verdict", "value": outcome.verdict}
            for measure in ("objective", "weighted_per", "participation"):
                value = getattr(judged, measure)
                yield {"policy": name, "worker": None, "measure": measure, "value": value}
            participation = (outcome.power > 0).double().mean(0)
            values = {"participation": participation, "power_w": outcome.power.mean(0)}
            values |= {key: reached.expected for key, reached in judged.constraints.items()}
            for measure, per_worker in values.items():
                for worker, value in enumerate(per_worker.tolist(), 1):
                    yield {"policy": name, "worker": worker, "measure": measure, "value": value}

    def metrics(self) -> dict[str, Any]:
        """Scenario, policies, optimum and channels."""
        return {
            "title": "Policies compared",
            "scenario": self.scenario.model_dump(mode="json"),
            "policies": {name: outcome.as_metrics() for name, outcome in self.items()},
            **(optimum_entries(self.optimum, self.judgements) if self.optimum else {}),
            "seed": self.seed,
            **({"channels": dict(self.channels)} if self.channels else {}),
        }

    def figures(self) -> dict[str, StyledFigure]:
        """Objective and constraints, and the distribution of the powers."""
        from feduplink.reporting.comparison import plot_comparison, plot_power_histogram

        return {
            "comparison": plot_comparison(self.judgements, self.optimum),
            "power-histogram": plot_power_histogram(self.powers, self.scenario),
        }


#: A policy is named as losing many models, or as silencing many workers, from this share on.
_NOTABLE_SHARE = 0.1


def _best_policies(judged: Mapping[str, Judgement]) -> list[str]:
    """The highest objectives of feasible policies, and the names of all others."""
    by_verdict: dict[str, list[str]] = {}
    for name, row in judged.items():
        by_verdict.setdefault(str(row.verdict), []).append(name)
    ranked = sorted(by_verdict.pop("feasible", []), key=lambda name: -judged[name].objective)
    shown = [f"{name} ({judged[name].objective:.4f})" for name in ranked[:3]]
    best = f"Highest objective of the feasible policies: {', then '.join(shown)}."
    others = [
        f"{verdict.capitalize()}: {', '.join(names)}." for verdict, names in by_verdict.items()
    ]
    return [best if ranked else "No policy is feasible.", *others]


def _losses(judged: Mapping[str, Judgement]) -> list[str]:
    """Policies under which many models are lost, or many workers do not transmit."""
    lossy = [
        f"{name} ({row.weighted_per:.0%})"
        for name, row in judged.items()
        if row.weighted_per > _NOTABLE_SHARE
    ]
    quiet = [
        f"{name} ({1 - row.participation:.0%})"
        for name, row in judged.items()
        if 1 - row.participation > _NOTABLE_SHARE
    ]
    found = []
    if lossy:
        found.append(f"Share of the transmitted models that are lost: {', '.join(lossy)}.")
    if quiet:
        found.append(
            f"Workers that do not transmit: {', '.join(quiet)} of all workers and rounds. The "
            "weighted PER does not count them, the objective does."
        )
    return found


@workflow
def evaluate(
    scenario: Scenario,
    policies: PoliciesOption = None,
    *,
    channels: ChannelsOption = None,
    channels_per_split: TestChannelsPerSplit = None,
    optimum: Annotated[
        bool, Field(description="Also find the optimum on the test channels, with its bound")
    ] = False,
    max_boxes: MaxBoxes = None,
    budget_s: BudgetS = None,
    seed: Seed = 0,
    device: Device = "cpu",
    **reading: Reading,
) -> Evaluation:
    """Compare policies on test channels of a scenario, or on recorded channels.

    Policies are tuned on the training channels and judged on the test channels. All policies see
    the same CSI, with the noise of the scenario; the true channels decide.

    Where channels are drawn and their number is not given, the constraints of a policy whose
    verdict is inconclusive on the test channels are tested on further channels until it is
    decided, or until ``Policy.max_verdict_channels`` (50,000) are used. Objective, weighted PER,
    participation, powers and the optimum remain those of the 1000 test channels, so that they
    compare.

    Args:
        scenario: the cell, the radio and the problem.
        policies: names, objects, functions ``f(csi, scenario)`` or directories of training runs;
            by default those that are compared where none are named.
        channels: recorded or drawn channels; an array (N, L, L) is reported on as a whole, and
            policies are tuned on channels drawn from the scenario.
        channels_per_split: number of channels to draw for each split, without ``channels``, and
            of the verdicts; None: 1000, and as many as the verdicts take.
        optimum: whether to find the optimum on the same test channels.
        max_boxes: boxes after which the branch and bound of its proof stops.
        budget_s: time limit of its proof, s; what is proved then depends on the machine.
        seed: of channels, tuning and CSI noise.
        device: where powers are computed.
        reading: ``noise_power_w``, ``transpose`` and ``channel_axes`` of a file or an array, as of
            :func:`feduplink.make_channels`.

    """
    from feduplink.channels.channel_set import channels_for
    from feduplink.optimum import find_optimum
    from feduplink.policies.store import default_policies, make_policies

    per_split = channels_per_split or CHANNELS_PER_SPLIT
    scenario, data = channels_for(scenario, channels, per_split, seed=seed, **reading)
    names = default_policies() if policies is None else policies
    found = make_policies(names, scenario, channels=data, seed=seed)
    outcomes = judge_policies(
        found, data.test, scenario, seed=seed, recorded=data.recorded, device=device
    )
    if channels is None and channels_per_split is None:
        outcomes = decide_verdicts(outcomes, found, data, scenario, seed=seed, device=device)
    best = None
    if optimum:
        best = find_optimum(
            scenario, data.test, max_boxes=max_boxes, budget_s=budget_s, device=device
        )
        warn_unreachable(best.unreachable)
        rivals = {name: row.power for name, row in outcomes.items() if row.schedule is None}
        best = best.improved_by(rivals)
    return Evaluation(
        scenario,
        outcomes,
        best,
        data.as_metrics(),
        data.headline(data.test),
        tuple(data.notes),
        seed,
    )


def judge_policies(
    policies: Mapping[str, Policy],
    csi: Tensor,
    scenario: Scenario,
    problem: Problem | None = None,
    *,
    seed: int = 0,
    recorded: bool = False,
    device: str | None = None,
) -> dict[str, Outcome]:
    """Judge every policy on the channels (N, L, L); all see the same noisy CSI.

    Args:
        policies: by name.
        csi: the true channels.
        scenario: the cell and the radio.
        problem: judges the powers; by default the problem of the scenario.
        seed: of the CSI noise.
        recorded: the channels are recorded, so that a policy made for another channel model is not
            reported as such.
        device: where powers are computed; by default where the channels are.

    """
    from feduplink.judgement import judge
    from feduplink.link import Schedule, upload
    from feduplink.policies import allocate_from_noisy_csi
    from feduplink.policies.store import made_for

    outcomes = {}
    for name, policy in track_each("comparison", policies.items(), "policies"):
        decided = allocate_from_noisy_csi(policy, csi, scenario, seed=seed, device=device)
        judged = judge(scenario, csi, decided, problem=problem)
        differences = made_for(policy, scenario, recorded=recorded)
        if isinstance(decided, Schedule):
            power = upload(csi.double(), decided, scenario).power
            outcomes[name] = Outcome(power, judged, differences, decided)
        else:
            outcomes[name] = Outcome(decided, judged, differences)
    return outcomes


def decide_verdicts(
    outcomes: Mapping[str, Outcome],
    policies: Mapping[str, Policy],
    channels: Channels,
    scenario: Scenario,
    *,
    seed: int = 0,
    device: str | None = None,
) -> dict[str, Outcome]:
    """Test the constraints on further channels where the test channels leave a verdict open.

    The further channels are drawn in blocks of as many as there are test channels; all policies
    see the same ones, with noise of their own.

    Args:
        outcomes: of the policies on the test channels, by name.
        policies: by name.
        channels: the test channels, drawn from a scenario.
        scenario: the cell and the radio.
        seed: of the further channels and the CSI noise.
        device: where powers are computed; by default where the channels are.

    Returns:
        The outcomes with the verdicts and margins on all channels judged.
    """
    from feduplink.judgement import SequentialTest, planned_sizes
    from feduplink.policies import allocate_from_noisy_csi
    from feduplink.randomness import torch_generator

    block_size = len(channels.test)
    tests = {}
    for name, outcome in outcomes.items():
        blocks = max(1, policies[name].max_verdict_channels // block_size)
        sizes = planned_sizes(block_size, blocks * block_size)
        tests[name] = SequentialTest(scenario, None, sizes)
        tests[name].add(channels.test, outcome.schedule or outcome.power)
    most = sum(test.remaining for test in tests.values())
    block = 0
    with track("verdicts", most, "channels") as progress:
        while open_tests := {n: test for n, test in tests.items() if not test.is_finished}:
            block += 1
            generator = torch_generator(seed, "verdict-channels", block)
            csi = channels.fresh(block_size, generator)
            for name, test in open_tests.items():
                decided = allocate_from_noisy_csi(
                    policies[name],
                    csi,
                    scenario,
                    seed=seed,
                    noise="verdict-noise",
                    block=block,
                    device=device,
                )
                test.add(csi, decided)
                left = sum(other.remaining for other in tests.values())
                progress.advance(most - left, {"undecided": len(open_tests)})
    return {
        name: replace(outcome, judgement=tests[name].conclude(outcome.judgement))
        for name, outcome in outcomes.items()
    }


def warn_unreachable(unreachable: Any) -> None:
    """Warn of every worker that cannot meet its thresholds on any channel."""
    for entry in unreachable:
        warnings.warn(f"thresholds: {entry}", stacklevel=3)


def optimum_entries(optimum: Optimum, judgements: Mapping[str, Judgement]) -> dict[str, Any]:
    """The entries ``optimum`` and ``below_optimum`` of ``metrics.json``.

    The latter is null for a policy that violates a constraint on these channels.
    """
    return {
        "optimum": optimum.as_metrics(),
        "below_optimum": {name: optimum.below(row) for name, row in judgements.items()},
    }
