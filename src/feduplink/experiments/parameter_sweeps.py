"""Sweeps of one parameter: interference, maximum power, network size and CSI noise."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

import numpy as np

from feduplink.channels import make_channels
from feduplink.experiments import Experiment, ExperimentResult
from feduplink.experiments.claims import format_mean_and_error, is_lower, judge_claim
from feduplink.experiments.compared import (
    COMPARED,
    LEARNED,
    POLICIES_VERSION,
    READINGS,
    SELECTED,
    SETTINGS_VERSION,
    PolicyOutcome,
    SettingOutcome,
    evaluate_policies,
    evaluate_setting,
    evaluate_settings,
    make_cached_policy,
    make_compared,
)
from feduplink.experiments.context import ExperimentContext
from feduplink.policies import Policy, UnrolledPolicy
from feduplink.reporting.style import (
    MUTED,
    OPTIMUM,
    Look,
    StyledFigure,
    feasibility_note,
    figure,
    legend_columns,
    looks_of,
    marker_style,
    objective_label,
    set_objective_scale,
)
from feduplink.scenario import Scenario
from feduplink.storage.run_directory import Claim
from feduplink.workflows import evaluate

Quantity = Literal["objective", "weighted_per", "participation", "shortfall", "repaired_objective"]
Loss = Literal["objective", "weighted_per"]

#: Difference of objectives below which they count as equal.
_EQUAL_OBJECTIVE = 0.02


class SweepResult(ExperimentResult):
    """Outcomes by policy, value of the parameter and seed.

    The list of outcomes is empty where a policy is not available, such as ``pdm`` for other numbers
    of workers.

    Attributes:
        parameter: name of the parameter.
        values: values of the parameter.
        policies: outcomes, ``policies[name][value][seed]``.
    """

    parameter: str
    values: list[float]
    policies: dict[str, list[list[PolicyOutcome]]]

    @classmethod
    def from_settings(
        cls,
        parameter: str,
        values: Sequence[float],
        settings: Sequence[Sequence[SettingOutcome]],
    ) -> Self:
        """Collect the outcomes ``settings[value][seed]``."""
        names = dict.fromkeys(name for row in settings for one in row for name in one.policies)
        return cls(
            parameter=parameter,
            values=list(values),
            policies={
                name: [
                    [one.policies[name] for one in row if name in one.policies] for row in settings
                ]
                for name in names
            },
        )

    def seeds(self, policy: str, index: int, quantity: Quantity) -> list[float]:
        """Quantity by seed at ``values[index]``; NaN where it is undefined."""
        values = [getattr(outcome, quantity) for outcome in self.policies[policy][index]]
        return [np.nan if value is None else float(value) for value in values]

    def mean(self, policy: str, index: int, quantity: Quantity) -> float:
        """Mean over the seeds at ``values[index]``; NaN without outcomes."""
        values = self.seeds(policy, index, quantity)
        return float(np.mean(values)) if values else np.nan

    def means(self, policy: str, quantity: Quantity) -> list[float]:
        """Mean over the seeds at every value."""
        return [self.mean(policy, index, quantity) for index in range(len(self.values))]

    def feasible(self, policy: str, index: int) -> bool | None:
        """Verdict at ``values[index]``.

        Args:
            policy: name of the policy.
            index: index of the value.

        Returns:
            True if feasible for all seeds, False if infeasible for any, None if inconclusive.
        """
        verdicts = [outcome.feasible for outcome in self.policies[policy][index]]
        if False in verdicts:
            return False
        return None if None in verdicts else True

    def losses(self, policy: str, index: int, quantity: Loss) -> list[float]:
        """Weighted PER, or 1 − objective, by seed at ``values[index]``."""
        values = self.seeds(policy, index, quantity)
        return [1 - value for value in values] if quantity == "objective" else values

    def is_better(self, one: str, other: str, quantity: Loss) -> list[bool | None]:
        """Compare two policies at every value where both are available.

        The comparison is paired by seed, because both policies have the same channels.

        Args:
            one: name of the first policy.
            other: name of the second policy.
            quantity: quantity to compare.

        Returns:
            By value, whether ``one`` has the lower loss; None if the difference is not significant
            (:func:`~feduplink.experiments.claims.is_lower`) or undefined.
        """
        both = [
            index
            for index in range(len(self.values))
            if self.policies[one][index] and self.policies[other][index]
        ]
        pairs = [(self.losses(one, n, quantity), self.losses(other, n, quantity)) for n in both]
        return [
            None if np.isnan([*ours, *theirs]).any() else is_lower(ours, theirs)
            for ours, theirs in pairs
        ]

    def format_means(self, policies: Sequence[str], quantity: Quantity) -> str:
        """Means and standard errors over the seeds, in words; packet error rates in percent."""
        return "; ".join(
            f"{name} "
            + ", ".join(
                _format_seeds(self.seeds(name, index, quantity), quantity)
                for index in range(len(self.values))
            )
            for name in policies
        )

    def format_verdicts(self, policy: str) -> str:
        """Numbers of verdicts over values and seeds, in words."""
        found = [outcome.feasible for seeds in self.policies[policy] for outcome in seeds]
        return (
            f"{policy} feasible {found.count(True)}, inconclusive {found.count(None)}, infeasible "
            f"{found.count(False)} of {len(found)}"
        )

    def rows(self) -> Iterator[dict[str, object]]:
        """Rows per policy, value and run; every run has a different seed."""
        for name, by_value in self.policies.items():
            for value, seeds in zip(self.values, by_value, strict=True):
                for run, outcome in enumerate(seeds):
                    row = {"policy": name, self.parameter: f"{value:g}", "run": run}
                    yield {**row, **outcome.model_dump()}


def _format_seeds(values: Sequence[float], quantity: Quantity) -> str:
    if not values or np.isnan(values).any():
        return "–"
    if quantity == "weighted_per":
        return f"{format_mean_and_error([100 * value for value in values], 1)} %"
    return format_mean_and_error(values, 3)


class ParameterSweep(Experiment[SweepResult]):
    """An experiment that evaluates the policies at several values of one parameter."""

    result_type = SweepResult

    def plot(self, result: SweepResult, caption: str = "") -> StyledFigure:
        """Draw weighted PER, objective and participation against the parameter."""
        return plot_sweep(result, caption)


@dataclass(frozen=True)
class ScenarioSweep(ParameterSweep):
    """A parameter of the scenario; policies are trained and evaluated at each of its values.

    Attributes:
        parameter: name of the parameter.
        scenarios: values of the parameter, each with the name of a shipped scenario.
    """

    parameter: ClassVar[str]
    scenarios: tuple[tuple[float, str], ...]

    def run(self, context: ExperimentContext) -> SweepResult:
        """Evaluate all policies at each value."""
        values, names = zip(*self.scenarios, strict=True)
        settings = evaluate_settings(context, [Scenario.load(name) for name in names])
        return SweepResult.from_settings(self.parameter, values, settings)


@dataclass(frozen=True)
class Interference(ScenarioSweep):
    """Powers against the interference factor."""

    name = "interference"
    title = "Interference"
    caption = (
        "Interference scaled by 1, 2, 4 and 8; policies trained and evaluated at each factor. "
        "Left: the paper's figure, which counts transmitting workers only; middle and right: the "
        "objective, which counts all workers, and the share that transmits. Hollow marks: "
        "infeasible with one seed or more; half-filled: inconclusive on 10,000 channels. Bars: "
        "from the worst to the best seed. rand and orth silence workers that would violate a "
        "constraint, as in the paper's text; :unselected silence none, as in its code."
    )

    parameter = "interference"
    scenarios: tuple[tuple[float, str], ...] = (
        (1.0, "default"),
        (2.0, "interference-x2"),
        (4.0, "interference-x4"),
        (8.0, "interference-x8"),
    )

    def claims(self, result: SweepResult) -> list[Claim]:
        """Claims that PDG is better than PDM, and both better than Rand and Orth."""
        return power_claims(result, "at every interference factor")


@dataclass(frozen=True)
class MaximumPower(ScenarioSweep):
    """Powers against the maximum transmit power."""

    name = "pmax"
    title = "Maximum power"
    caption = (
        "Pmax from −40 to 0 dBW; policies trained and evaluated at each. Marks and bars as for "
        "interference."
    )

    parameter = "Pmax (dBW)"
    scenarios: tuple[tuple[float, str], ...] = (
        (-40.0, "pmax-minus-40dbw"),
        (-30.0, "pmax-minus-30dbw"),
        (-20.0, "default"),
        (-10.0, "pmax-minus-10dbw"),
        (0.0, "pmax-0dbw"),
    )

    def claims(self, result: SweepResult) -> list[Claim]:
        """Claims that PDG is best at every power, and that PDM equals PDG at the smallest."""
        smallest = {name: result.mean(name, 0, "objective") for name in (*LEARNED, OPTIMUM)}
        silenced = 1 - result.mean(OPTIMUM, 0, "participation")
        return [
            *power_claims(result, "at every Pmax"),
            judge_claim(
                "At the smallest Pmax every worker should transmit at full power, and with the "
                "learned policies they do",
                [
                    abs(smallest["pdm"] - smallest["pdg"]) < _EQUAL_OBJECTIVE,
                    smallest[OPTIMUM] - smallest["pdg"] < _EQUAL_OBJECTIVE,
                ],
                f"objective at −40 dBW: pdm {smallest['pdm']:.3f}, pdg {smallest['pdg']:.3f}; "
                f"optimum, which silences {silenced:.0%}, {smallest[OPTIMUM]:.3f}",
            ),
        ]


def power_claims(result: SweepResult, everywhere: str) -> list[Claim]:
    """Claims on transmit powers, judged by the weighted PER and by the objective.

    Args:
        result: outcomes.
        everywhere: description of the values, such as ``at every Pmax``.

    Returns:
        The claims with verdicts.
    """
    better: dict[Loss, str] = {
        "weighted_per": "a lower weighted PER",
        "objective": "a higher objective",
    }
    found = [
        judge_claim(
            f"PDG has {has} than PDM {everywhere}",
            result.is_better("pdg", "pdm", quantity),
            result.format_means(LEARNED, quantity),
        )
        for quantity, has in better.items()
    ]
    found += [
        judge_claim(
            f"PDM and PDG have {have} than Rand and Orth {everywhere} ({reading})",
            [
                verdict
                for one in LEARNED
                for other in baselines
                for verdict in result.is_better(one, other, quantity)
            ],
            result.format_means((*baselines, *LEARNED), quantity),
        )
        for reading, baselines in READINGS.items()
        for quantity, have in better.items()
    ]
    shown = (*LEARNED, "openloop", "dual", "pdx")
    constraints = judge_claim(
        f"PDM and PDG are feasible on unseen channels {everywhere}",
        [outcome.feasible for name in LEARNED for row in result.policies[name] for outcome in row],
        "; ".join(map(result.format_verdicts, shown)),
    )
    return [*found, constraints]


@dataclass(frozen=True)
class NetworkSize(ParameterSweep):
    """Policies trained with 8 workers in cells of other sizes."""

    name = "network-size"
    title = "Network size"
    caption = (
        "Cells of 6 to 32 workers. pdm and pdg are trained with 8 workers; pdm takes no other "
        "number. Thresholds for other sizes are unknown: the problem is unconstrained, and rand "
        "and orth silence no worker in either reading. Bars: from the worst to the best seed."
    )
    #: Number of workers that policies are trained with.
    trained_workers: ClassVar[int] = 8

    #: Numbers of workers that they are evaluated with.
    workers: tuple[int, ...] = (6, 8, 16, 24, 32)

    def run(self, context: ExperimentContext) -> SweepResult:
        """Evaluate the policies at each size."""
        # All sizes share the trained policies.
        context.map_seeds(make_cached_policy, [(name, Scenario()) for name in LEARNED], "policies")
        sizes = [(workers,) for workers in self.workers]
        rows = context.map_seeds(self._evaluate, sizes, "networks")
        return SweepResult.from_settings("workers", self.workers, rows)

    def _evaluate(self, context: ExperimentContext, workers: int, seed: int) -> SettingOutcome:
        scenario, trained = Scenario(workers=workers, rate_min=0.0, ee_min=0.0), Scenario()

        def make() -> SettingOutcome:
            policies = {
                name: make_cached_policy(
                    context, name, trained if name in LEARNED else scenario, seed
                )
                for name in COMPARED
                if ":" not in name and (name != "pdm" or workers == self.trained_workers)
            }
            return evaluate_policies(context, policies, scenario, seed)

        versions = (POLICIES_VERSION, SETTINGS_VERSION, self.version)
        identity = (scenario.model_dump(mode="json"), seed)
        return context.cached(SettingOutcome, make, "sizes", versions, *identity)

    def claims(self, result: SweepResult) -> list[Claim]:
        """Claims that PDG is better than Rand and Orth, and that its objective decreases less."""
        shown = (*SELECTED, "pdg", "openloop", "pdx", OPTIMUM)
        trained, last = result.values.index(self.trained_workers), len(result.values) - 1

        def lost(name: str) -> list[float]:
            """Decrease of the objective from 8 workers to the largest size, by seed."""
            start, end = (result.losses(name, index, "objective") for index in (trained, last))
            return [after - before for before, after in zip(start, end, strict=True)]

        return [
            judge_claim(
                "Trained with 8 workers, PDG has a lower weighted PER than Rand and Orth at every "
                "size",
                [
                    verdict
                    for name in SELECTED
                    for verdict in result.is_better("pdg", name, "weighted_per")
                ],
                result.format_means(shown, "weighted_per"),
            ),
            judge_claim(
                "From 8 to 32 workers the objective of PDG decreases less than that of Rand and "
                "Orth",
                [is_lower(lost("pdg"), lost(name)) for name in SELECTED],
                ", ".join(f"{name} −{np.mean(lost(name)):.3f}" for name in shown),
            ),
        ]


@dataclass(frozen=True)
class CsiNoise(ParameterSweep):
    """Policies with noisy channel estimates as input."""

    name = "csi-noise"
    title = "Noisy channel estimates"
    caption = (
        "Policies made for exact channels have estimates with white Gaussian noise as input and "
        "are evaluated on the true channels. The variance is an input of pdx, but not of "
        "pdx:unaware. The optimum is that of the true channels. Marks: constraints on the test "
        "channels alone."
    )

    #: Variances of the noise, in 1/W².
    variances: tuple[float, ...] = (1.0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6)

    def run(self, context: ExperimentContext) -> SweepResult:
        """Evaluate the policies of the default setting at each variance."""
        (by_seed,) = context.map_seeds(self._evaluate, [()], "seeds")
        rows = list(zip(*by_seed, strict=True))
        return SweepResult.from_settings("variance of the CSI noise (1/W²)", self.variances, rows)

    def _evaluate(self, context: ExperimentContext, seed: int) -> list[SettingOutcome]:
        clean = Scenario()
        optimum = evaluate_setting(context, clean, seed).policies[OPTIMUM]
        csi = make_channels(clean, context.scale.channels, seed=seed).test
        settings = []
        for variance in self.variances:
            # New policies, so that rand draws the same random numbers at every variance.
            policies = make_compared(context, clean, seed)
            scenario = clean.replace(csi_noise=variance)
            shown: dict[str, Policy] = {
                **policies,
                "pdx": with_csi_noise(policies["pdx"], variance),
                "pdx:unaware": policies["pdx"],
            }
            found = {
                name: PolicyOutcome.from_judgement(outcome.judgement)
                for name, outcome in evaluate(scenario, shown, channels=csi, seed=seed).items()
            }
            settings.append(SettingOutcome(policies={**found, OPTIMUM: optimum}))
        return settings

    def claims(self, result: SweepResult) -> list[Claim]:
        """Claims that PDG is better than PDM, and that Rand and Orth are insensitive to noise."""
        last = len(result.values) - 1
        return [
            judge_claim(
                "PDG has a lower weighted PER than PDM at every variance",
                result.is_better("pdg", "pdm", "weighted_per"),
                result.format_means(LEARNED, "weighted_per"),
            ),
            judge_claim(
                "The weighted PER of both learned policies increases with the noise",
                [
                    is_lower(
                        result.losses(name, 0, "weighted_per"),
                        result.losses(name, last, "weighted_per"),
                    )
                    for name in LEARNED
                ],
                result.format_means((*LEARNED, "pdx"), "objective"),
            ),
            *(_insensitivity_claim(result, reading, names) for reading, names in READINGS.items()),
        ]


def with_csi_noise(policy: Policy, variance: float) -> UnrolledPolicy:
    """Policy ``pdx`` with the noise variance, 1/W², as an input."""
    assert isinstance(policy, UnrolledPolicy)
    scenario = policy.scenario.replace(csi_noise=variance)
    return UnrolledPolicy(scenario, policy.network, policy.point)


def _insensitivity_claim(result: SweepResult, reading: str, names: tuple[str, ...]) -> Claim:
    """Claim that the objectives of policies do not change with the noise."""
    means = {name: result.means(name, "objective") for name in names}
    ranges = {name: max(values) - min(values) for name, values in means.items()}
    return judge_claim(
        f"Rand and Orth are insensitive to the noise ({reading})",
        [change < _EQUAL_OBJECTIVE for change in ranges.values()],
        "change of the objective: " + ", ".join(f"{c:.3f} ({n})" for n, c in ranges.items()),
    )


_PANELS: dict[Quantity, str] = {
    "weighted_per": "weighted PER of transmitting workers",
    "objective": "",  # the label depends on the scale of the axis
    "participation": "participation",
}
#: Share of the distance between two values that the marks of all policies take.
_MARKS_SHARE = 0.6


def plot_sweep(sweep: SweepResult, caption: str = "") -> StyledFigure:
    """Draw weighted PER, objective and participation; bars from the worst to the best seed.

    The values are equidistant, and the marks of the policies at one value side by side, so that
    equal ones are visible.
    """
    looks = looks_of(sweep.policies)
    shifts = _MARKS_SHARE * ((np.arange(len(looks)) + 0.5) / len(looks) - 0.5)
    # Short labels for large values: 1e4.
    values = [f"{value:.4g}".replace("e+0", "e") for value in sweep.values]
    with figure(10.5, 4.3, caption) as drawing:
        panels = drawing.subplots(1, len(_PANELS))
        for axes, (quantity, label) in zip(panels, _PANELS.items(), strict=True):
            for shift, (name, look) in zip(shifts, looks.items(), strict=True):
                _plot_policy(axes, sweep, name, quantity, look, shift)
            axes.set_xticks(range(len(values)), values)
            axes.set_xlabel(sweep.parameter)
            axes.set_ylabel(label)
        per, objective, participation = panels
        objectives = [mean for name in looks for mean in sweep.means(name, "objective")]
        objective.set_ylabel(objective_label(set_objective_scale(objective, "y", objectives)))
        participation.set_ylim(-0.05, 1.05)
        per.yaxis.set_major_formatter(lambda share, _place: f"{100 * share:g} %")
        drawing.legend(
            *per.get_legend_handles_labels(),
            loc="outside lower center",
            ncols=legend_columns(len(looks)),
        )
        verdicts = feasibility_note(
            sweep.feasible(name, index)
            for name, by_value in sweep.policies.items()
            for index, seeds in enumerate(by_value)
            if seeds
        )
        drawing.suptitle(
            f"{verdicts}\nbars: from the worst to the best seed; marks of one value side by side",
            fontsize=8,
            color=MUTED,
        )
    return drawing


def _plot_policy(
    axes: Any, sweep: SweepResult, name: str, quantity: Quantity, look: Look, shift: float
) -> None:
    """Draw one policy, shifted to the right by a share of the distance between two values."""
    places = np.arange(len(sweep.values)) + shift
    means = sweep.means(name, quantity)
    axes.plot(places, means, look.line, color=look.colour, linewidth=1.0)
    # The mark in the legend is always filled.
    axes.plot([], [], label=name, **{**marker_style(look), "linestyle": look.line})
    for index, (place, mean) in enumerate(zip(places, means, strict=True)):
        seeds = sweep.seeds(name, index, quantity)
        if seeds:
            axes.vlines(place, min(seeds), max(seeds), look.colour, linewidth=2.2, alpha=0.45)
            style = marker_style(look, sweep.feasible(name, index), 5.5)
            axes.plot(place, mean, zorder=3, **style)
