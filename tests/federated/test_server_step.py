"""Aggregations of the user's own: found by name, with a state that survives an interruption."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import torch

from feduplink import FullPower, InputError, Scenario
from feduplink.federated import (
    Aggregation,
    ExactAverage,
    Federation,
    FederationSettings,
    Task,
    federate,
    find_aggregation,
)
from feduplink.policies import Ideal

from .conftest import mean_loss

SCENARIO = Scenario(workers=3)


@dataclass(frozen=True)
class FedAvgM(Aggregation):
    """Hsu et al. (2019): v ← β v + (w − average), w ← w − v."""

    beta: float = 0.9

    def initial_state(self, model):
        return {name: torch.zeros_like(weight) for name, weight in model.items()}

    def aggregate(self, model, local, arrivals, state):
        average = ExactAverage().aggregate(model, local, arrivals, {})
        for name, weight in model.items():
            state[name] = self.beta * state[name] + (weight - average[name])
        return {name: weight - state[name] for name, weight in model.items()}


class Silent(Aggregation):
    """Keeps the model, and counts the rounds in which it did."""

    def initial_state(self, model):
        return {"rounds": torch.zeros((), dtype=torch.int64)}

    def aggregate(self, model, local, arrivals, state):
        assert int(state["rounds"]) == arrivals.round
        state["rounds"] += 1
        return model


def steep(task: Task) -> Task:
    return replace(task, metric=mean_loss)


def errors(task: Task, aggregation: str | Aggregation) -> tuple[float, ...]:
    settings = FederationSettings(rounds=4, aggregation=aggregation)
    return (
        federate(steep(task), {"ideal": Ideal(SCENARIO)}, SCENARIO, settings)
        .policies["ideal"][0]
        .error
    )


def test_momentum_at_zero_is_the_exact_average_and_otherwise_not(small_task: Task):
    exact = errors(small_task, "exact")
    assert errors(small_task, FedAvgM(beta=0.0)) == pytest.approx(exact, rel=1e-6)
    with_momentum = errors(small_task, FedAvgM())
    assert with_momentum[0] == pytest.approx(exact[0], rel=1e-6)
    assert with_momentum[1] != pytest.approx(exact[1], rel=1e-4)


def test_a_resumed_server_optimiser_is_the_same_to_the_last_bit(small_task: Task, tmp_path: Path):
    policies = {"ideal": Ideal(SCENARIO), "max": FullPower(SCENARIO)}

    def fresh() -> Federation:
        settings = FederationSettings(runs=2, rounds=6, aggregation=FedAvgM())
        return Federation(steep(small_task), policies, SCENARIO, settings)

    undisturbed, killed, resumed = fresh(), fresh(), fresh()
    for number in range(6):
        undisturbed.run_round(number, at_once=2)
    for number in range(3):
        killed.run_round(number, at_once=2)
    killed.save(tmp_path / "state.safetensors")
    resumed.resume(tmp_path / "state.safetensors")
    for number in range(3, 6):
        resumed.run_round(number, at_once=2)
    assert resumed.history() == undisturbed.history()
    for found, expected in zip(resumed.state.server, undisturbed.state.server, strict=True):
        assert list(found) == list(expected)
        assert all(found[name].equal(expected[name]) for name in expected)
        assert any(tensor.any() for tensor in found.values())


def test_every_federation_has_a_state_of_its_own(small_task: Task):
    settings = FederationSettings(runs=2, rounds=3, aggregation=Silent())
    federation = Federation(
        small_task, {"a": Ideal(SCENARIO), "b": Ideal(SCENARIO)}, SCENARIO, settings
    )
    history = federation.run()
    assert [int(state["rounds"]) for state in federation.state.server] == [3] * 4
    for run in history.policies["a"]:
        assert len(set(run.error)) == 1


@pytest.mark.parametrize(
    ("other", "field"),
    [("exact", "name"), (FedAvgM(0.5), "settings"), (Silent(), "name")],
    ids=["another class", "another setting", "another state"],
)
def test_a_checkpoint_of_another_aggregation_is_refused(
    small_task: Task, tmp_path: Path, other: str | Aggregation, field: str
):
    file = tmp_path / "state.safetensors"
    settings = FederationSettings(rounds=2, aggregation=FedAvgM())
    federate(small_task, {"ideal": Ideal(SCENARIO)}, SCENARIO, settings, checkpoint=file)
    with pytest.raises(InputError, match=rf"made with another aggregation \({field}"):
        federate(
            small_task,
            {"ideal": Ideal(SCENARIO)},
            SCENARIO,
            replace(settings, aggregation=other),
            checkpoint=file,
            resume=True,
        )


def make_momentum() -> FedAvgM:
    return FedAvgM(beta=0.7)


def test_classes_functions_and_objects_are_found():
    assert find_aggregation(f"{__name__}:FedAvgM") == FedAvgM()
    assert find_aggregation(f"{__name__}:make_momentum") == FedAvgM(0.7)
    own = FedAvgM(0.3)
    assert find_aggregation(own) is own


def test_what_is_no_aggregation_is_refused_by_name():
    with pytest.raises(InputError, match=r"^aggregation: builtins:dict is a dict; accepted: an "):
        find_aggregation("builtins:dict")
    with pytest.raises(InputError, match=r"aggregation: 'unbaised' .*did you mean unbiased\?"):
        find_aggregation("unbaised")


class Forgetful(FedAvgM):
    def aggregate(self, model, local, arrivals, state):
        state["more"] = torch.zeros(())
        return model


class Partial(FedAvgM):
    def aggregate(self, model, local, arrivals, state):
        return {"0.weight": model["0.weight"]}


@pytest.mark.parametrize(("wrong", "what"), [(Forgetful(), "state"), (Partial(), "model")])
def test_an_aggregation_must_return_what_it_was_given(
    small_task: Task, wrong: Aggregation, what: str
):
    name = type(wrong).__name__
    with pytest.raises(InputError, match=rf"^aggregation: .*{name} returned a {what} with "):
        errors(small_task, wrong)
