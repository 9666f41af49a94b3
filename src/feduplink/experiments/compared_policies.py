"""The policies that experiments compare, made once per scenario and seed, and kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import ConfigDict, RootModel

from feduplink.channels import draw_training_csi, make_channels
from feduplink.experiments.experiment_context import ExperimentContext
from feduplink.policies import (
    DualPolicy,
    GraphPolicy,
    LagrangianPolicy,
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
from feduplink.registry import POLICIES
from feduplink.scenario import Scenario
from feduplink.storage.files import write_text
from feduplink.training import Epoch, Training, TrainingData, training_settings

#: Of kept policies; increasing it computes everything that is made of them anew, too.
POLICIES_VERSION = 1


def names(*kinds: Any) -> tuple[str, ...]:
    """What these classes of policies and access schemes are called."""
    return tuple(kind.name for kind in kinds)


LEARNED = names(PerceptronPolicy, GraphPolicy)
SELECTED = names(RandomPower, Orthogonal)
UNSELECTED = names(UnselectedRandomPower, UnselectedOrthogonal)
#: The paper's baselines by how it is read.
READINGS = {
    "workers selected, as its text says": SELECTED,
    "nobody silenced, as in its code": UNSELECTED,
}
#: All of them, each baseline in both readings.
BASELINES = names(RandomPower, UnselectedRandomPower, Orthogonal, UnselectedOrthogonal)
#: The paper's policies, then what it leaves out; the order of all figures.
COMPARED = (*BASELINES, *LEARNED, *names(OpenLoop, DualPolicy, UnrolledPolicy))


class _History(RootModel[list[Epoch]]):
    # A worker that never sends has no mean rate: NaN, which JSON proper does not know.
    model_config = ConfigDict(ser_json_inf_nan="constants")


def policies_for(context: ExperimentContext, scenario: Scenario, seed: int) -> dict[str, Policy]:
    """All compared policies for a scenario, tuned and learned on channels of ``seed``."""
    return {name: policy_for(context, name, scenario, seed) for name in COMPARED}


def policy_for(context: ExperimentContext, name: str, scenario: Scenario, seed: int) -> Policy:
    """One of them; what takes time to find is kept."""
    kind = POLICIES.find(name)
    if not issubclass(kind, NeuralPolicy | LagrangianPolicy):
        tuning = make_channels(scenario, context.scale.channels, seed=seed).training
        return make_policy(name, scenario, channels=tuning, seed=seed)
    file = _file(context, name, scenario, seed)
    if not file.exists():
        policy = (
            _learned(context, kind, scenario, seed)
            if issubclass(kind, NeuralPolicy)
            else _solved(context, kind, scenario, seed)
        )
        save_policy(policy, file)
    return load_policy(file)


def training_history(
    context: ExperimentContext, name: str, scenario: Scenario, seed: int
) -> list[Epoch]:
    """How ``pdm`` or ``pdg`` got there, epoch by epoch."""
    policy_for(context, name, scenario, seed)
    file = _file(context, name, scenario, seed, ".json")
    return _History.model_validate_json(file.read_bytes()).root


def _learned(
    context: ExperimentContext, kind: type[NeuralPolicy], scenario: Scenario, seed: int
) -> NeuralPolicy:
    splits = make_channels(scenario, context.scale.channels, seed=seed)
    settings = training_settings(kind, epochs=context.scale.epochs)
    policy = kind.initialised(scenario, seed)
    data = TrainingData(splits.training, splits.validation)
    training = Training(policy, data, settings, seed=seed)
    training.run()
    file = _file(context, kind.name, scenario, seed, ".json")
    write_text(file, _History(training.history).model_dump_json())
    return policy


def _solved(
    context: ExperimentContext, kind: type[Policy], scenario: Scenario, seed: int
) -> Policy:
    csi = draw_training_csi(scenario, context.scale.solved_channels, seed=seed)
    if issubclass(kind, DualPolicy):
        return DualPolicy.learned(scenario, csi)
    return shipped_pdx(scenario, csi)


def _file(
    context: ExperimentContext,
    name: str,
    scenario: Scenario,
    seed: int,
    suffix: str = ".safetensors",
) -> Path:
    identity = (name, scenario.model_dump(mode="json"), seed)
    return context.cache_path("policies", (POLICIES_VERSION,), *identity).with_suffix(suffix)
