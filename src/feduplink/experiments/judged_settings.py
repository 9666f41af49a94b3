"""One setting of the paper: every policy judged on its test channels, and the optimum of these."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pydantic import BaseModel, ConfigDict

from feduplink.channels import make_channels
from feduplink.evaluation import allocate_seen, judge_policy
from feduplink.experiments.compared_policies import POLICIES_VERSION, policies_for
from feduplink.experiments.experiment_context import ExperimentContext
from feduplink.judgement import Judgement, judge
from feduplink.lagrangian import ChannelBatch
from feduplink.optimum import repaired, solve_dual
from feduplink.policies import Policy
from feduplink.problem import Problem
from feduplink.reporting.style import OPTIMUM
from feduplink.scenario import Scenario

#: Of kept settings.
SETTINGS_VERSION = 1

_ON_CONSTRAINTS = ("feasible", "shortfall", "shortfall_error")


class Figures(BaseModel):
    """A :class:`Judgement` without its figures per worker; ``weighted_per`` None: all silent.

    ``feasible`` and ``shortfall`` may rest on more channels than the rest. ``feasible`` None: they
    cannot tell; ``shortfall_error`` None: infinite. ``repaired_objective`` is what is left of the
    objective if the policy is silenced in the few rounds that make it meet the constraints on these
    very channels, as the optimum does; None where it was not asked for.
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
    def from_judgement(cls, verdict: Judgement, repaired: Judgement | None = None) -> Figures:
        """The figures that are compared; ``repaired`` judges the repaired powers."""
        left = repaired.as_metrics()["objective"] if repaired else None
        return cls.model_validate({**verdict.as_metrics(), "repaired_objective": left})

    def judged_on(self, more: Judgement) -> Figures:
        """With what a judgement on more channels says of the constraints."""
        metrics = more.as_metrics()
        return self.model_copy(update={name: metrics[name] for name in _ON_CONSTRAINTS})


class Setting(BaseModel):
    """All policies and the optimum on the test channels of one scenario and seed."""

    policies: dict[str, Figures]


def judged_setting(context: ExperimentContext, scenario: Scenario, seed: int) -> Setting:
    """All compared policies, made for the scenario; kept."""

    def make() -> Setting:
        return judged_policies(context, policies_for(context, scenario, seed), scenario, seed)

    identity = (scenario.model_dump(mode="json"), seed)
    versions = (POLICIES_VERSION, SETTINGS_VERSION)
    return context.cached(Setting, make, "settings", versions, *identity)


def judged_policies(
    context: ExperimentContext, policies: Mapping[str, Policy], scenario: Scenario, seed: int
) -> Setting:
    """Judge policies on the test channels, and find the optimum of these.

    Whether they meet their constraints is told by more channels. The optimum is the best that was
    found: none of the policies, repaired, is above it.
    """
    csi = make_channels(scenario, context.scale.channels, seed=seed).test
    batch, problem = ChannelBatch.from_scenario(scenario, csi), Problem.from_scenario(scenario)
    optimum, found = solve_dual(scenario, csi), {}
    for name, policy in policies.items():
        power = allocate_seen(policy, csi, scenario, seed=seed)
        mended = repaired(power, batch, problem)
        left = judge(mended, csi, scenario)
        optimum = optimum.improved_by(name, mended, left)
        found[name] = Figures.from_judgement(judge(power, csi, scenario), left)
    if problem.constrained:
        many = make_channels(scenario, context.scale.verdict_channels, seed=seed).test
        for name, policy in policies.items():
            found[name] = found[name].judged_on(judge_policy(policy, many, scenario, seed=seed))
    found[OPTIMUM] = Figures.from_judgement(optimum.judgement, optimum.judgement)
    return Setting(policies=found)


def judged_settings(
    context: ExperimentContext, scenarios: Mapping[float, Scenario] | Mapping[str, Scenario]
) -> list[list[Setting]]:
    """For every scenario, the settings of all seeds."""
    grid = [(scenario, seed) for scenario in scenarios.values() for seed in context.seeds]
    settings = context.map(judged_setting, grid, "settings")
    return in_rows(settings, len(context.seeds))


def in_rows(settings: Sequence[Setting], seeds: int) -> list[list[Setting]]:
    """One list per scenario from one over all scenarios and seeds."""
    return [list(settings[start : start + seeds]) for start in range(0, len(settings), seeds)]
