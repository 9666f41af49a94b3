"""Compared policies and schedules: construction, evaluation and cache, by scenario and seed."""

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

#: Version of cached policies and of all results computed from them.
POLICIES_VERSION = 1
#: Version of cached evaluations.
SETTINGS_VERSION = 1


def names(*kinds: Any) -> tuple[str, ...]:
    """Names of policy classes."""
    return tuple(kind.name for kind in kinds)


#: Trained policies of the paper.
LEARNED = names(PerceptronPolicy, GraphPolicy)
#: Baselines of the paper, with and without selection of workers.
SELECTED = names(RandomPower, Orthogonal)
UNSELECTED = names(UnselectedRandomPower, UnselectedOrthogonal)
BASELINES = names(RandomPower, UnselectedRandomPower, Orthogonal, UnselectedOrthogonal)
#: Readings of the baselines, by their description in claims.
READINGS = {
    "with selection, as in the text": SELECTED,
    "without selection, as in the code": UNSELECTED,
}
#: All compared policies, in the order of the figures.
COMPARED = (*BASELINES, *LEARNED, *names(OpenLoop, DualPolicy, UnrolledPolicy))

#: Price of energy κ of the compared schedules, s/J.
_KAPPA = 10.0


def _schedule_name(scheme: str, delivery: float | None = None) -> str:
    """Name of a schedule with its price of energy and delivery rate."""
    share = "" if delivery is None else f",d={delivery:g}"
    return f"{scheme}:kappa={_KAPPA:g}{share}"


SCHEDULE = _schedule_name(ComputedSchedule.name)
SCHEDULE_HALF, SCHEDULE_FIFTH = (_schedule_name(ComputedSchedule.name, d) for d in (0.5, 0.2))

#: Class and options of the compared schedules by name: minimum time; delivery rates of 1, 1/2 and
#: 1/5; one power per worker and round; the phase network.
SCHEDULES: dict[str, tuple[type[Policy], dict[str, Any]]] = {
    ComputedSchedule.name: (ComputedSchedule, {}),
    SCHEDULE: (ComputedSchedule, {"kappa": _KAPPA}),
    SCHEDULE_HALF: (ComputedSchedule, {"kappa": _KAPPA, "delivery": 0.5}),
    SCHEDULE_FIFTH: (ComputedSchedule, {"kappa": _KAPPA, "delivery": 0.2}),
    _schedule_name(FixedPower.name): (FixedPower, {"kappa": _KAPPA}),
    _schedule_name(LearnedSchedule.name): (LearnedSchedule, {"kappa": _KAPPA}),
}
#: Maximum number of training channels for the calibration of rewards for delivery.
_MAX_REWARD_CHANNELS = 512


def make_schedule(
    context: ExperimentContext, name: str, scenario: Scenario, bits: Tensor
) -> Policy:
    """Make a compared schedule, with rewards for delivery calibrated on training channels.

    Args:
        context: scale of the experiment.
        name: name in :data:`SCHEDULES`.
        scenario: the cell and its radio.
        bits: size Z of one upload, () or (L,), bits.

    Returns:
        The policy.
    """
    kind, options = SCHEDULES[name]
    given: dict[str, Any] = dict(options)
    if "delivery" in options:
        count = min(_MAX_REWARD_CHANNELS, context.scale.solved_channels)
        given |= {"channels": make_channels(scenario, count), "bits": bits}
    return make_policy(kind, scenario, **given)


class _History(RootModel[list[Epoch]]):
    """JSON of a training history; the mean rate of a worker that never transmits is NaN."""

    model_config = ConfigDict(ser_json_inf_nan="constants")


def make_compared(context: ExperimentContext, scenario: Scenario, seed: int) -> dict[str, Policy]:
    """All compared policies by name, tuned or trained on channels of ``seed``."""
    return {name: make_cached_policy(context, name, scenario, seed) for name in COMPARED}


def make_cached_policy(
    context: ExperimentContext, name: str, scenario: Scenario, seed: int
) -> Policy:
    """Make a policy, or read it from the cache of trained networks and calibrated multipliers.

    Args:
        context: scale and cache.
        name: name of the policy.
        scenario: scenario that it is tuned or trained for.
        seed: seed of channels and training.

    Returns:
        The policy.
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
    """Epochs of the training of the cached ``pdm`` or ``pdg``; arguments of the policy."""
    make_cached_policy(context, name, scenario, seed)
    file = _policy_path(context, name, scenario, seed, ".json")
    return _History.model_validate_json(file.read_bytes()).root


def _train(context: ExperimentContext, name: str, scenario: Scenario, seed: int) -> Policy:
    """Train a policy and cache its history."""
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
    """Calibrate the multipliers of ``dual`` or ``pdx``."""
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
    """Path of a cached policy, or of its history."""
    identity = (name, scenario.model_dump(mode="json"), seed)
    return context.cache_path("policies", (POLICIES_VERSION,), *identity).with_suffix(suffix)


class PolicyOutcome(BaseModel):
    """Measures of one policy at one setting.

    Attributes:
        objective: objective on the test channels.
        weighted_per: weighted packet error rate of the transmitting workers; None if all are
            silent.
        participation: share of worker-rounds in which a worker transmits.
        feasible: whether the constraints hold; None if inconclusive. It and the next two may be
            estimated on more channels than the other measures.
        shortfall: largest relative shortfall of a constraint; negative if all hold.
        shortfall_error: half-width of its confidence interval; None if infinite.
        repaired_objective: objective after workers are silenced in the fewest rounds such that the
            constraints hold on the test channels; None if not computed.
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
        """Collect the measures of a policy.

        Args:
            judgement: judgement on the test channels.
            repaired: judgement of the repaired powers on the test channels.
            on_more_channels: judgement that determines the verdict on the constraints.

        Returns:
            The measures.
        """
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
    """Outcomes of all compared policies and of the optimum at a scenario and seed; cached."""

    def make() -> SettingOutcome:
        return evaluate_policies(context, make_compared(context, scenario, seed), scenario, seed)

    identity = (scenario.model_dump(mode="json"), seed)
    versions = (POLICIES_VERSION, SETTINGS_VERSION)
    return context.cached(SettingOutcome, make, "settings", versions, *identity)


def evaluate_settings(
    context: ExperimentContext, scenarios: Sequence[Scenario]
) -> list[list[SettingOutcome]]:
    """Outcomes by scenario and seed."""
    return context.map_seeds(evaluate_setting, [(each,) for each in scenarios], "settings")


def evaluate_policies(
    context: ExperimentContext, policies: Mapping[str, Policy], scenario: Scenario, seed: int
) -> SettingOutcome:
    """Evaluate policies on the test channels and find the optimum of these channels.

    Constraints are tested on ``Scale.verdict_channels`` channels. The optimum is the best solution
    found, including the repaired policies.

    Args:
        context: scale of the experiment.
        policies: policies by name.
        scenario: the cell, the radio and the problem.
        seed: seed of channels and CSI noise.

    Returns:
        Outcomes of the policies and of the optimum.
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
