"""Optimality gap of every policy, at eight settings."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from statistics import fmean

import numpy as np
from pydantic import BaseModel

from feduplink.channels import make_channels
from feduplink.experiments import Experiment, ExperimentResult
from feduplink.experiments.claims import judge_claim
from feduplink.experiments.compared import POLICIES_VERSION, SETTINGS_VERSION, evaluate_settings
from feduplink.experiments.context import ExperimentContext
from feduplink.experiments.parameter_sweeps import SweepResult
from feduplink.optimum import find_optimum
from feduplink.reporting.style import (
    MUTED,
    OPTIMUM,
    StyledFigure,
    feasibility_note,
    figure,
    legend_columns,
    look_of,
    looks_of,
    marker_style,
)
from feduplink.scenario import Scenario
from feduplink.storage.run_directory import Claim

#: The axis of distances is linear below this and logarithmic above.
_LINEAR_BELOW = 1e-3
#: Share of the height of a row that the marks of all policies take.
_MARKS_SHARE = 0.8


class OptimalityGapResult(ExperimentResult):
    """Outcomes at all settings, and the certificate of the first seed at each.

    Attributes:
        scenarios: names of the settings.
        sweep: outcomes by policy, setting and seed.
        optimum: objective of the best solution of the first seed, by setting.
        upper_bound: certified upper bound on it, by setting.
    """

    scenarios: list[str]
    sweep: SweepResult
    optimum: list[float]
    upper_bound: list[float]

    def distances(self, policy: str, index: int) -> list[float] | None:
        """Optimality gap of the repaired policy: optimum minus objective, non-negative.

        Args:
            policy: name of the policy.
            index: index of the setting.

        Returns:
            Gaps by seed; None for a policy that is infeasible at this setting.
        """
        if self.sweep.feasible(policy, index) is False:
            return None
        best = self.sweep.seeds(OPTIMUM, index, "objective")
        reached = self.sweep.seeds(policy, index, "repaired_objective")
        return [one - other for one, other in zip(best, reached, strict=True)]

    def rows(self) -> Iterator[dict[str, object]]:
        """Rows per setting, policy and run; the rows of run 0 contain the certificate."""
        for index, scenario in enumerate(self.scenarios):
            for name, by_setting in self.sweep.policies.items():
                for run, outcome in enumerate(by_setting[index]):
                    yield {
                        "scenario": scenario,
                        "policy": name,
                        "run": run,
                        **outcome.model_dump(),
                        "proved_objective": None if run else self.optimum[index],
                        "upper_bound": None if run else self.upper_bound[index],
                    }


class _Certificate(BaseModel):
    """Objective and certified upper bound of an optimum."""

    objective: float
    upper_bound: float


@dataclass(frozen=True)
class OptimalityGap(Experiment[OptimalityGapResult]):
    """Policies against the certified optimum of their test channels."""

    name = "optimality-gap"
    title = "Distance to the optimum"
    caption = (
        "Distance of every policy to the optimum of the same test channels, mean over the seeds "
        "and their range. The optimum satisfies the constraints on these channels, and so does "
        "every policy here: one that violates them, as a policy that is feasible on the "
        "distribution may by chance, is silenced in the fewest rounds that restore them. An "
        "infeasible policy has no distance. The bar is the gap of the certificate: no feasible "
        "policy is to its left."
    )
    result_type = OptimalityGapResult

    #: Names of the settings, in the order of the figure.
    scenarios: tuple[str, ...] = (
        "default",
        "interference-x2",
        "interference-x4",
        "interference-x8",
        "pmax-minus-40dbw",
        "pmax-minus-30dbw",
        "pmax-minus-10dbw",
        "pmax-0dbw",
    )

    def run(self, context: ExperimentContext) -> OptimalityGapResult:
        """Evaluate all policies at every setting and certify the optimum of the first seed."""
        scenarios = [Scenario.load(name) for name in self.scenarios]
        settings = evaluate_settings(context, scenarios)
        certificates = context.map(
            self._certify, [(name,) for name in self.scenarios], "certificates"
        )
        positions = [float(index) for index in range(len(self.scenarios))]
        return OptimalityGapResult(
            scenarios=list(self.scenarios),
            sweep=SweepResult.from_settings("setting", positions, settings),
            # The best of both searches and of the repaired policies.
            optimum=[
                max(certificate.objective, row[0].policies[OPTIMUM].objective)
                for certificate, row in zip(certificates, settings, strict=True)
            ],
            upper_bound=[certificate.upper_bound for certificate in certificates],
        )

    def _certify(self, context: ExperimentContext, name: str) -> _Certificate:
        """Certify the optimum of the first seed at a setting; cached."""
        scenario = Scenario.load(name)

        def make() -> _Certificate:
            csi = make_channels(scenario, context.scale.channels, seed=context.seed).test
            optimum = find_optimum(scenario, csi, budget_s=context.scale.proof_s)
            return _Certificate(objective=optimum.objective, upper_bound=optimum.upper_bound)

        versions = (POLICIES_VERSION, SETTINGS_VERSION, self.version)
        identity = (scenario.model_dump(mode="json"), context.seed)
        return context.cached(_Certificate, make, "certificates", versions, *identity)

    def claims(self, result: OptimalityGapResult) -> list[Claim]:
        """Claims on the duality gap and on the optimality gaps of pdg, dual and pdx."""
        gaps = [top - found for top, found in zip(result.upper_bound, result.optimum, strict=True)]

        def means(name: str) -> list[float | None]:
            rows = [result.distances(name, index) for index in range(len(result.scenarios))]
            return [None if row is None else fmean(row) for row in rows]

        def near(name: str, limit: float) -> list[bool]:
            return [distance is not None and distance <= limit for distance in means(name)]

        def format_distances(name: str) -> str:
            distances = (
                "infeasible" if distance is None else f"{distance:.3f}" for distance in means(name)
            )
            return f"{name} {', '.join(distances)}"

        return [
            judge_claim(
                "The problem has no duality gap (theorem 1): a feasible policy reaches the dual "
                "bound",
                [gap <= 0.02 for gap in gaps],
                "proved gaps at the eight settings: " + ", ".join(f"{gap:.4f}" for gap in gaps),
            ),
            judge_claim(
                "PDG is near-optimal (not infeasible, and within 0.05 of the optimum once the "
                "constraints hold on the test channels)",
                near("pdg", 0.05),
                "; ".join(map(format_distances, ("pdm", "pdg", "openloop"))),
            ),
            judge_claim(
                "(ours) dual and pdx are not infeasible, and within 0.01 of the optimum at every "
                "setting once the constraints hold on the test channels",
                [*near("dual", 0.01), *near("pdx", 0.01)],
                "; ".join(map(format_distances, ("dual", "pdx"))),
            ),
        ]

    def plot(self, result: OptimalityGapResult, caption: str = "") -> StyledFigure:
        """Draw distances below the optimum; bars are the gaps of the certificates."""
        sweep = result.sweep
        looks = looks_of(name for name in sweep.policies if name != OPTIMUM)
        shifts = _MARKS_SHARE * ((np.arange(len(looks)) + 0.5) / len(looks) - 0.5)
        indices = range(len(result.scenarios))
        with figure(10.5, 1.2 + 0.62 * len(result.scenarios), caption) as drawing:
            axes = drawing.subplots()
            axes.set_xscale("symlog", linthresh=_LINEAR_BELOW)
            axes.barh(
                indices,
                np.subtract(result.optimum, result.upper_bound),
                color=look_of(OPTIMUM).colour,
                alpha=0.25,
                linewidth=0,
                label="gap of the certificate",
            )
            for shift, (name, look) in zip(shifts, looks.items(), strict=True):
                axes.plot([], [], label=name, **marker_style(look))
                for index in indices:
                    distances = result.distances(name, index)
                    if not distances:  # infeasible, or not defined at this setting
                        continue
                    level = index + shift
                    axes.hlines(level, min(distances), max(distances), look.colour, alpha=0.5)
                    style = marker_style(look, sweep.feasible(name, index))
                    axes.plot(fmean(distances), level, **style)
            axes.axvline(0.0, color="black", linewidth=1.0)
            axes.set_yticks(indices, result.scenarios)
            axes.set_yticks([index + 0.5 for index in indices[:-1]], minor=True)
            axes.invert_yaxis()
            axes.grid(axis="y", visible=False)
            axes.grid(axis="y", which="minor", visible=True)
            axes.tick_params(axis="y", which="minor", length=0)
            axes.xaxis.set_major_formatter("{x:g}")
            axes.set_xlabel("objective below the optimum (linear up to 0.001, then logarithmic)")
            drawing.legend(loc="outside lower center", ncols=legend_columns(len(looks) + 1))
            known = (
                sweep.feasible(name, index)
                for name in looks
                for index in indices
                if sweep.policies[name][index]
            )
            note = f"{feasibility_note(known)}; lines: from the worst to the best seed"
            drawing.suptitle(note, fontsize=8, color=MUTED)
        return drawing
