"""The compared policies and schedules: made once per scenario and seed, evaluated and cached."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, RootModel
from torch import Tensor

from feduplink.channels import draw_training_csi, make_channels
from feduplink.experiments.context import ExperimentContext
from feduplink.judgement import Judgement, judge
from feduplink.lagrangian import ChannelBatch
from feduplink.optimum import repair_by_silence, solve_dual
from feduplink.policies import (
    ComputedSchedule,
    DualPolicy,
    FixedPower,
    GraphPolicy,
    LagrangianPolicy,
    LearnedSchedule,
    NeuralPolicy,
    OpenLoop,
    Orthogonal,
    PerceptronPolicy,
    Policy,
    RandomPower,
    UnrolledPolicy,
    UnselectedOrthogonal,
    UnselectedRandomPower,
    load_policy,
    make_policy,
    save_policy,
    shipped_pdx,
)
from feduplink.problem import Problem
from feduplink.registry import POLICIES
from feduplink.reporting.style import OPTIMUM
from feduplink.scenario import Scenario
from feduplink.storage.files import write_text
from feduplink.training import Epoch
from feduplink.workflows import TrainingRun, evaluate, train

#: Version of cached policies and of everything that is computed from them.
POLICIES_VERSION = 1
#: Version of cached evaluations.
SETTINGS_VERSION = 1


def names(*kinds: Any) -> tuple[str, ...]:
    """Return the names of classes of policies."""
    return tuple(kind.name for kind in kinds)


#: The policies of the paper that are trained.
LEARNED = names(PerceptronPolicy, GraphPolicy)
#: The baselines of the paper, with and without its selection of workers.
SELECTED = names(RandomPower, Orthogonal)
UNSELECTED = names(UnselectedRandomPower, UnselectedOrthogonal)
BASELINES = names(RandomPower, UnselectedRandomPower, Orthogonal, UnselectedOrthogonal)
#: The two readings of the baselines by their description in claims.
READINGS = {
    "with selection, as in the text": SELECTED,
    "without selection, as in the code": UNSELECTED,
}
#: The policies of the paper, then the others, in the order of all figures.
COMPARED = (*BASELINES, *LEARNED, *names(OpenLoop, DualPolicy, UnrolledPolicy))

#: Price of energy of the compared schedules, in s/J: the airtime is that of ``pdx``, the energy
#: 40 % lower.
_KAPPA = 10.0


def _schedule_name(scheme: str, delivery: float | None = None) -> str:
    share = "" if delivery is None else f",d={delivery:g}"
    return f"{scheme}:kappa={_KAPPA:g}{share}"


SCHEDULE = _schedule_name(ComputedSchedule.name)
SCHEDULE_HALF, SCHEDULE_FIFTH = (_schedule_name(ComputedSchedule.name, d) for d in (0.5, 0.2))

#: Class and options of the compared schedules by name: the shortest round; every worker in every
#: round, in half and in a fifth of the rounds; one power per worker and round; the phase network.
SCHEDULES: dict[str, tuple[type[Policy], dict[str, Any]]] = {
    ComputedSchedule.name: (ComputedSchedule, {}),
    SCHEDULE: (ComputedSchedule, {"kappa": _KAPPA}),
    SCHEDULE_HALF: (ComputedSchedule, {"kappa": _KAPPA, "delivery": 0.5}),
    SCHEDULE_FIFTH: (ComputedSchedule, {"kappa": _KAPPA, "delivery": 0.2}),
    _schedule_name(FixedPower.name): (FixedPower, {"kappa": _KAPPA}),
    _schedule_name(LearnedSchedule.name): (LearnedSchedule, {"kappa": _KAPPA}),
}
#: Largest number of training channels that rewards for delivery are learned on.
_MAX_REWARD_CHANNELS = 512


def make_schedule(
    context: ExperimentContext, name: str, scenario: Scenario, bits: Tensor
) -> Policy:
    """Return a compared schedule; it learns its rewards for delivery on training channels."""
    kind, options = SCHEDULES[name]
    given: dict[str, Any] = dict(options)
    if "delivery" in options:
        count = min(_MAX_REWARD_CHANNELS, context.scale.solved_channels)
        given |= {"channels": make_channels(scenario, count), "bits": bits}
    return make_policy(kind, scenario, **given)


class _History(RootModel[list[Epoch]]):
    # The mean rate of a worker that never transmits is NaN.
    model_config = ConfigDict(ser_json_inf_nan="constants")


def make_compared(context: ExperimentContext, scenario: Scenario, seed: int) -> dict[str, Policy]:
    """Return all compared policies, tuned or trained on channels of ``seed``."""
    return {name: make_cached_policy(context, name, scenario, seed) for name in COMPARED}


def make_cached_policy(
    context: ExperimentContext, name: str, scenario: Scenario, seed: int
) -> Policy:
    """Return the policy ``name``, tuned or trained on channels of ``seed``.

    Trained networks and calibrated multipliers are cached.
    """
    kind = POLICIES.find(name)
    if not issubclass(kind, NeuralPolicy | LagrangianPolicy):
        tuning = make_channels(scenario, context.scale.channels, seed=seed).training
        return make_policy(name, scenario, channels=tuning, seed=seed)
    file = _policy_path(context, name, scenario, seed)
    if not file.exists():
        policy = (
            _train(context, name, scenario, seed)
            if issubclass(kind, NeuralPolicy)
            else _calibrate(context, kind, scenario, seed)
        )
        save_policy(policy, file)
    return load_policy(file)


def training_history(
    context: ExperimentContext, name: str, scenario: Scenario, seed: int
) -> list[Epoch]:
    """Return the epochs in which the cached ``pdm`` or ``pdg`` was trained."""
    make_cached_policy(context, name, scenario, seed)
    file = _policy_path(context, name, scenario, seed, ".json")
    return _History.model_validate_json(file.read_bytes()).root


def _train(context: ExperimentContext, name: str, scenario: Scenario, seed: int) -> Policy:
    scale = context.scale
    run: TrainingRun = train(
        scenario, name, channels_per_split=scale.channels, epochs=scale.epochs, seed=seed
    )
    file = _policy_path(context, name, scenario, seed, ".json")
    write_text(file, _History(list(run.history)).model_dump_json())
    return run.policy


def _calibrate(
    context: ExperimentContext, kind: type[Policy], scenario: Scenario, seed: int
) -> Policy:
    csi = draw_training_csi(scenario, context.scale.solved_channels, seed=seed)
    if issubclass(kind, DualPolicy):
        return DualPolicy.learned(scenario, csi)
    return shipped_pdx(scenario, csi)


def _policy_path(
    context: ExperimentContext,
    name: str,
    scenario: Scenario,
    seed: int,
    suffix: str = ".safetensors",
) -> Path:
    identity = (name, scenario.model_dump(mode="json"), seed)
    return context.cache_path("policies", (POLICIES_VERSION,), *identity).with_suffix(suffix)


class PolicyOutcome(BaseModel):
    """Measures of one policy at one setting, without those of single workers.

    Attributes:
        objective: objective on the test channels.
        weighted_per: weighted packet error rate of the transmitting workers; None if all are
            silent.
        participation: share of worker-rounds in which a worker transmits.
        feasible: whether the constraints hold; None if the test is inconclusive. This and the next
            two may be estimated on more channels than the others.
        shortfall: largest relative shortfall of a constraint; negative if all hold.
        shortfall_error: half-width of its confidence interval; None if infinite.
        repaired_objective: objective once workers are silenced in the fewest rounds that make the
            constraints hold on the test channels, as they do for the optimum; None if not computed.
    """

    model_config = ConfigDict(frozen=True)

    objective: float
    weighted_per: float | None
    participation: float
    feasible: bool | None
    shortfall: float
    shortfall_error: float | None
    repaired_objective: float | None = None

    @classmethod
    def from_judgement(
        cls,
        judgement: Judgement,
        repaired: Judgement | None = None,
        on_more_channels: Judgement | None = None,
    ) -> PolicyOutcome:
        """Collect the measures; the last judgement, if given, decides on the constraints."""
        metrics = judgement.as_metrics()
        decisive = (on_more_channels or judgement).as_metrics()
        metrics |= {name: decisive[name] for name in ("feasible", "shortfall", "shortfall_error")}
        if repaired:
            metrics["repaired_objective"] = repaired.as_metrics()["objective"]
        return cls.model_validate(metrics)


class SettingOutcome(BaseModel):
    """Outcomes of the policies and of the optimum at one scenario and seed."""

    policies: dict[str, PolicyOutcome]


def evaluate_setting(context: ExperimentContext, scenario: Scenario, seed: int) -> SettingOutcome:
    """Return the outcomes of all compared policies, made for the scenario; cached."""

    def make() -> SettingOutcome:
        return evaluate_policies(context, make_compared(context, scenario, seed), scenario, seed)

    identity = (scenario.model_dump(mode="json"), seed)
    versions = (POLICIES_VERSION, SETTINGS_VERSION)
    return context.cached(SettingOutcome, make, "settings", versions, *identity)


def evaluate_settings(
    context: ExperimentContext, scenarios: Sequence[Scenario]
) -> list[list[SettingOutcome]]:
    """Return the outcomes of all seeds for every scenario."""
    return context.map_seeds(evaluate_setting, [(each,) for each in scenarios], "settings")


def evaluate_policies(
    context: ExperimentContext, policies: Mapping[str, Policy], scenario: Scenario, seed: int
) -> SettingOutcome:
    """Evaluate policies on the test channels and find the optimum of these channels.

    Constraints are tested on ``verdict_channels`` channels. The optimum is the best solution found:
    no repaired policy exceeds it.
    """
    csi = make_channels(scenario, context.scale.channels, seed=seed).test
    batch, problem = ChannelBatch.from_scenario(scenario, csi), Problem.from_scenario(scenario)
    optimum = solve_dual(scenario, csi)
    on_test = evaluate(scenario, policies, channels=csi, seed=seed)
    on_many = on_test
    if problem.constrained:
        many = make_channels(scenario, context.scale.verdict_channels, seed=seed).test
        on_many = evaluate(scenario, policies, channels=many, seed=seed)
    outcomes = {}
    for name, outcome in on_test.items():
        power = repair_by_silence(outcome.power, batch, problem)
        after_repair = judge(scenario, csi, power)
        optimum = optimum.improved_by(name, power, after_repair)
        outcomes[name] = PolicyOutcome.from_judgement(
            outcome.judgement, after_repair, on_many[name].judgement
        )
    outcomes[OPTIMUM] = PolicyOutcome.from_judgement(optimum.judgement, optimum.judgement)
    return SettingOutcome(policies=outcomes)
