"""One setting of the paper: every policy judged on its test channels, and the optimum of these."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pydantic import BaseModel, ConfigDict

from feduplink.channels import draw_splits
from feduplink.evaluation import allocate_seen
from feduplink.experiments.bench import Bench
from feduplink.experiments.policies import policies_for
from feduplink.lagrangian import Cell
from feduplink.optimum import repaired, solve_dual
from feduplink.policies import Policy
from feduplink.problem import Judgement, Problem, judge
from feduplink.scenario import Scenario

#: The row of a comparison that no policy can exceed by more than the certificate's gap.
OPTIMUM = "optimum"


class Figures(BaseModel):
    """A :class:`Judgement` without its figures per worker; ``weighted_per`` None: all silent.

    ``feasible`` None: so many channels cannot tell; ``shortfall_error`` None: infinite.
    ``repaired_objective`` is what is left of the objective if the policy is silenced in the few
    rounds that make it meet the constraints on these very channels, as the optimum does; None
    where it was not asked for.
    """

    model_config = ConfigDict(frozen=True)

    objective: float
    weighted_per: float | None
    participation: float
    feasible: bool | None
    shortfall: float
    shortfall_error: float | None
    repaired_objective: float | None

    @classmethod
    def of(cls, verdict: Judgement, repaired: Judgement | None = None) -> Figures:
        """The figures that are compared; ``repaired`` judges the repaired powers."""
        left = repaired.as_metrics()["objective"] if repaired else None
        return cls.model_validate({**verdict.as_metrics(), "repaired_objective": left})


class Setting(BaseModel):
    """All policies and the optimum on the test channels of one scenario and seed."""

    policies: dict[str, Figures]


def judged_setting(bench: Bench, scenario: Scenario, seed: int) -> Setting:
    """All compared policies, made for the scenario; kept."""

    def make() -> Setting:
        return judged_policies(bench, policies_for(bench, scenario, seed), scenario, seed)

    return bench.once(Setting, make, "settings", scenario.model_dump(mode="json"), seed)


def judged_policies(
    bench: Bench, policies: Mapping[str, Policy], scenario: Scenario, seed: int
) -> Setting:
    """Judge policies on the test channels, and find the optimum of these.

    The optimum is the best that was found: none of the policies, repaired, is above it.
    """
    csi = draw_splits(scenario, bench.scale.channels, seed=seed).test
    cell, problem = Cell.of(scenario, csi), Problem.of(scenario)
    optimum, found = solve_dual(scenario, csi), {}
    for name, policy in policies.items():
        power = allocate_seen(policy, csi, scenario, seed=seed)
        mended = repaired(power, cell, problem)
        left = judge(mended, csi, scenario)
        optimum = optimum.improved_by(name, mended, left)
        found[name] = Figures.of(judge(power, csi, scenario), left)
    found[OPTIMUM] = Figures.of(optimum.judgement, optimum.judgement)
    return Setting(policies=found)


def judged_settings(
    bench: Bench, scenarios: Mapping[float, Scenario] | Mapping[str, Scenario]
) -> list[list[Setting]]:
    """For every scenario, the settings of all seeds."""
    grid = [(scenario, seed) for scenario in scenarios.values() for seed in bench.seeds]
    settings = bench.map(judged_setting, grid, "setting")
    return in_rows(settings, len(bench.seeds))


def in_rows(settings: Sequence[Setting], seeds: int) -> list[list[Setting]]:
    """A list for every scenario from one over all scenarios and seeds."""
    return [list(settings[start : start + seeds]) for start in range(0, len(settings), seeds)]
