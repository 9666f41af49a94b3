"""Evaluation: comparison of policies on the same channels."""

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
    from feduplink.units import DisplayUnit


@dataclass(frozen=True, repr=False)
class Outcome:
    """Powers and performance of one policy on the channels of an evaluation.

    Attributes:
        power: transmit powers on the test channels, (N, L), W; under a schedule their means over
            the airtime.
        judgement: performance measures and the verdict on the constraints.
        made_for: fields in which the policy's scenario differs from that of the evaluation, with
            the values of both.
        schedule: schedules of the N rounds, for a :class:`feduplink.SchedulePolicy`; otherwise
            None.

    >>> import feduplink as fu
    >>> outcome = fu.evaluate(fu.Scenario(workers=2), ["max"], channels_per_split=50)["max"]
    >>> outcome.power.shape, outcome.participation
    (torch.Size([50, 2]), 1.0)
    """

    power: Tensor
    judgement: Judgement
    made_for: dict[str, tuple[Any, Any]] = field(default_factory=dict)
    schedule: Schedule | None = None

    @property
    def objective(self) -> float:
        """Utility g(E[f]) of the mean objective measure."""
        return self.judgement.objective

    @property
    def weighted_per(self) -> float:
        """Weighted packet error rate Σ ω PER / Σ ω over the worker-rounds that transmit."""
        return self.judgement.weighted_per

    @property
    def participation(self) -> float:
        """Share of worker-rounds with positive power."""
        return self.judgement.participation

    @property
    def verdict(self) -> str:
        """``feasible``, ``infeasible``, ``inconclusive``, or ``silent`` if no worker transmits."""
        return str(self.judgement.verdict)

    @property
    def verdict_channels(self) -> int:
        """Number of channels used for verdict and margin."""
        return self.judgement.verdict_channels

    @property
    def margin(self) -> float:
        """Smallest margin of all workers and constraints, relative to the threshold."""
        return self.judgement.margin

    @property
    def margin_ci(self) -> tuple[float, float]:
        """Lower and upper end of the simultaneous 95 % confidence interval of the margin."""
        half = self.judgement.margin_ci
        return self.margin - half, self.margin + half

    def __repr__(self) -> str:
        """Performance and verdict on one line."""
        channels, workers = self.power.shape
        return f"Outcome({channels} channels of {workers} workers, {self.judgement!r})"

    def as_metrics(self) -> dict[str, Any]:
        """Entry of the policy in ``metrics.json``.

        Returns:
            Values by name, in SI units and nats.
        """
        entry: dict[str, Any] = dict(self.judgement.as_metrics())
        return {**entry, "made_for": self.made_for} if self.made_for else entry


@dataclass(frozen=True, repr=False, eq=False)
class Evaluation(Result, Mapping[str, Outcome]):
    """Result of :func:`evaluate`: a mapping of policy names to outcomes.

    Attributes:
        scenario: the cell, the radio and the problem.
        outcomes: one :class:`Outcome` per policy.
        optimum: optimum on the test channels, if requested.
        channels: origin of the channels, as in ``metrics.json``.
        origin: origin of the channels in words.
        notes: remarks on the channels, without initial capital and full stop.
        seed: seed of all random numbers.

    >>> import feduplink as fu
    >>> result = fu.evaluate(fu.Scenario(workers=2), ["max"], channels_per_split=50)
    >>> list(result), result["max"].participation
    (['max'], 1.0)
    >>> list(result.to_dataframe().columns)
    ['policy', 'worker', 'measure', 'value']
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
        """Judgement of each policy."""
        return {name: outcome.judgement for name, outcome in self.items()}

    @property
    def powers(self) -> dict[str, Tensor]:
        """Transmit powers of each policy, (N, L), W."""
        return {name: outcome.power for name, outcome in self.items()}

    def findings(self) -> list[str]:
        """Best policies, the bound, and policies with many lost models or silent workers."""
        from feduplink.problem import objective_unit

        judged, unit = self.judgements, objective_unit(self.scenario)
        found = [*_best_policies(judged, unit), *_losses(judged)]
        if self.optimum is not None and math.isfinite(self.optimum.upper_bound):
            bound = self.optimum.upper_bound
            found.insert(
                1,
                "No feasible policy with one power per worker and round exceeds "
                f"{unit.text(bound, '.4f')} on these channels, if arrivals are decided by the SINR "
                "with all senders active (certified upper bound).",
            )
        return found

    def remarks(self) -> list[str]:
        """Remarks below the table.

        Returns:
            The notes, and a remark on each policy that was made for another scenario.
        """
        from feduplink.policies.store import made_for_sentence

        made_for = {name: o.made_for for name, o in self.items() if o.made_for}
        return [*self.notes, *(made_for_sentence(name, d) for name, d in made_for.items())]

    def table(self) -> TextTable:
        """Table with a row per policy, and one for the optimum if it was requested."""
        from feduplink.reporting.comparison import comparison_table

        return comparison_table(self.judgements, self.scenario, self.optimum, self.remarks())

    def plot(self, ax: Axes | None = None) -> Axes:
        """Plot the objectives.

        Args:
            ax: matplotlib axes to draw in; None: a new figure, with participation and constraints.

        Returns:
            The axes of the objectives.
        """
        from feduplink.reporting.comparison import plot_comparison, plot_objectives

        if ax is not None:
            plot_objectives(ax, self.judgements, self.scenario, self.optimum)
            return ax
        axes: Axes = plot_comparison(self.judgements, self.scenario, self.optimum).axes[0]
        return axes

    def records(self) -> Iterator[dict[str, Any]]:
        """Rows with the columns policy, worker, measure and value.

        ``worker`` is None for values of the whole policy. Constrained measures are means over the
        channels of the verdict, all others over the test channels.
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
        """Scenario, policies, optimum, seed and channels."""
        return {
            "title": "Policies compared",
            "scenario": self.scenario.model_dump(mode="json"),
            "policies": {name: outcome.as_metrics() for name, outcome in self.items()},
            **(optimum_entries(self.optimum, self.judgements) if self.optimum else {}),
            "seed": self.seed,
            **({"channels": dict(self.channels)} if self.channels else {}),
        }

    def figures(self) -> dict[str, StyledFigure]:
        """Comparison of objectives and constraints, and distribution of the powers."""
        from feduplink.reporting.comparison import plot_comparison, plot_powers

        return {
            "comparison": plot_comparison(self.judgements, self.scenario, self.optimum),
            "power-histogram": plot_powers(self.powers, self.scenario),
        }


#: Weighted PER, or share of silent worker-rounds, above which a policy appears in the findings.
_NOTABLE_SHARE = 0.1


def _best_policies(judged: Mapping[str, Judgement], unit: DisplayUnit) -> list[str]:
    """Sentences on the best feasible policies, and on those with another verdict."""
    by_verdict: dict[str, list[str]] = {}
    for name, row in judged.items():
        by_verdict.setdefault(str(row.verdict), []).append(name)
    ranked = sorted(by_verdict.pop("feasible", []), key=lambda name: -judged[name].objective)
    shown = [f"{name} ({unit.text(judged[name].objective, '.4f')})" for name in ranked[:3]]
    best = f"Highest objective of the feasible policies: {', then '.join(shown)}."
    others = [
        f"{verdict.capitalize()}: {', '.join(names)}." for verdict, names in by_verdict.items()
    ]
    return [best if ranked else "No policy is feasible.", *others]


def _losses(judged: Mapping[str, Judgement]) -> list[str]:
    """Sentences on policies with many lost models or many silent workers."""
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

    Policies are tuned on the training channels and judged on the test channels. All policies
    observe the same CSI, with the noise of the scenario, and are judged on the true channels.

    If channels are drawn and ``channels_per_split`` is None, a policy with an inconclusive verdict
    on the 1000 test channels is tested on further channels until the verdict is decided or
    ``Policy.max_verdict_channels`` (50,000) are used. Objective, weighted PER, participation,
    powers and optimum always refer to the test channels.

    Args:
        scenario: the cell, the radio and the problem.
        policies: names, :class:`feduplink.Policy` objects or classes, functions
            ``f(csi, scenario)``, or directories of training runs; a single one, a sequence, or a
            mapping of names. None: the default policies.
        channels: recorded or drawn :class:`feduplink.Channels`, a file, or an array (N, L, L). All
            channels of an array are test channels, and policies are tuned on drawn channels. None:
            channels are drawn.
        channels_per_split: number of channels in each split and for the verdicts; None: 1000, and
            as many as the verdicts need.
        optimum: also find the optimum on the test channels.
        max_boxes: maximum number of boxes of its branch and bound; None: 2,000,000, or no limit
            with ``budget_s``.
        budget_s: time limit of its branch and bound, s; the bound then depends on the machine.
        seed: seed of channels, tuning and CSI noise.
        device: device for the computation of powers.
        reading: ``noise_power_w``, ``transpose`` and ``channel_axes`` of a file or an array, see
            :func:`feduplink.make_channels`.

    Returns:
        Powers in W, performance and verdict of every policy, by name.

    Raises:
        InputError: if an argument is not accepted.

    >>> import feduplink as fu
    >>> result = fu.evaluate(fu.Scenario(workers=3), ["max"], channels_per_split=50)
    >>> result["max"].participation
    1.0
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
    """Judge policies on the same channels, with the same realisation of the CSI noise.

    Args:
        policies: policies by name.
        csi: true channels H, (N, L, L), in 1/W.
        scenario: the cell and the radio.
        problem: objective and constraints; None: those of the scenario.
        seed: seed of the CSI noise.
        recorded: whether the channels are recorded; differences in the channel model are then not
            reported in ``Outcome.made_for``.
        device: device for the computation of powers; None: that of the channels.

    Returns:
        Outcomes by name.
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
    """Continue the test of constraints with inconclusive verdicts on further channels.

    Further channels are drawn in blocks of the number of test channels. All policies are tested on
    the same channels, with independent CSI noise; see :class:`feduplink.judgement.SequentialTest`.

    Args:
        outcomes: outcomes on the test channels, by name.
        policies: policies by name.
        channels: channels drawn from a scenario.
        scenario: the cell and the radio.
        seed: seed of the further channels and their CSI noise.
        device: device for the computation of powers; None: that of the channels.

    Returns:
        The outcomes with verdicts and margins from all channels used.
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
    """Warn of every worker that cannot satisfy its constraints even without interference."""
    for entry in unreachable:
        warnings.warn(f"thresholds: {entry}", stacklevel=3)


def optimum_entries(optimum: Optimum, judgements: Mapping[str, Judgement]) -> dict[str, Any]:
    """Entries ``optimum`` and ``below_optimum`` of ``metrics.json``.

    Args:
        optimum: optimum on the test channels.
        judgements: judgements of policies on these channels, by name.

    Returns:
        The entries. ``below_optimum`` is the optimality gap of each policy, None for a policy that
        violates a constraint on these channels.
    """
    return {
        "optimum": optimum.as_metrics(),
        "below_optimum": {name: optimum.below(row) for name, row in judgements.items()},
    }
