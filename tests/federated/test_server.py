"""Aggregations of the user's own: found by name, with a state that survives an interruption."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import torch

from feduplink import FullPower, InputError, Scenario
from feduplink.federated import (
    Aggregation,
    Arrivals,
    ExactAverage,
    Federation,
    FederationSettings,
    Task,
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
        Federation(steep(task), {"ideal": Ideal(SCENARIO)}, SCENARIO, settings)
        .run()
        .policies["ideal"][0]
        .error
    )


def test_momentum_of_zero_equals_the_exact_average(small_task: Task):
    exact = errors(small_task, "exact")
    assert errors(small_task, FedAvgM(beta=0.0)) == pytest.approx(exact, rel=1e-6)
    with_momentum = errors(small_task, FedAvgM())
    assert with_momentum[0] == pytest.approx(exact[0], rel=1e-6)
    assert with_momentum[1] != pytest.approx(exact[1], rel=1e-4)


def test_resumed_server_state_is_bitwise_equal(small_task: Task, tmp_path: Path):
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


def test_every_federation_has_a_separate_server_state(small_task: Task):
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
    Federation(small_task, {"ideal": Ideal(SCENARIO)}, SCENARIO, settings).run(checkpoint=file)
    with pytest.raises(InputError, match=rf"made with another aggregation \({field}"):
        Federation(
            small_task, {"ideal": Ideal(SCENARIO)}, SCENARIO, settings.replace(aggregation=other)
        ).run(checkpoint=file, resume=True)


def make_momentum() -> FedAvgM:
    return FedAvgM(beta=0.7)


def test_classes_functions_and_objects_are_found():
    assert find_aggregation(f"{__name__}:FedAvgM") == FedAvgM()
    assert find_aggregation(f"{__name__}:make_momentum") == FedAvgM(0.7)
    own = FedAvgM(0.3)
    assert find_aggregation(own) is own


def test_objects_that_are_not_aggregations_are_refused():
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
def test_aggregation_must_keep_names_and_shapes(small_task: Task, wrong: Aggregation, what: str):
    name = type(wrong).__name__
    with pytest.raises(InputError, match=rf"^aggregation: .*{name} returned a {what} with "):
        errors(small_task, wrong)


SIZES = torch.tensor([1.0, 2.0, 5.0], dtype=torch.float64)
MODELS = torch.tensor([[1.0, 10.0], [2.0, 20.0], [4.0, 40.0]], dtype=torch.float64)
BEFORE = torch.tensor([-7.0, -8.0], dtype=torch.float64)


def average(
    arrived: list[bool], aggregation="exact", models=MODELS, sizes=SIZES, success=0.5, number=1
) -> list[float]:
    arrivals = Arrivals(
        round=number,
        sizes=sizes,
        present=torch.ones(3, dtype=torch.bool),
        arrived=torch.tensor(arrived),
        success=torch.as_tensor(success, dtype=torch.float64).expand(3),
    )
    rule = find_aggregation(aggregation)
    return rule.aggregate({"w": BEFORE}, {"w": models}, arrivals, {})["w"].tolist()


def test_exact_coefficients_are_proportional_to_the_sizes():
    assert average([True, True, True]) == [25 / 8, 250 / 8]
    assert average([True, False, True]) == [21 / 6, 210 / 6]


def test_equal_models_average_to_themselves():
    assert average([True] * 3, models=torch.ones(3, 2).double()) == [1.0, 1.0]


@pytest.mark.parametrize("worker", range(3))
def test_one_arrival_gives_that_model(worker: int):
    assert average([i == worker for i in range(3)]) == MODELS[worker].tolist()


@pytest.mark.parametrize("aggregation", ["exact", "published", "unbiased"])
def test_model_does_not_change_without_arrivals(aggregation: str):
    assert average([False] * 3, aggregation) == BEFORE.tolist()


@pytest.mark.parametrize("aggregation", ["exact", "published", "unbiased"])
def test_lost_models_with_nan_do_not_affect_the_average(aggregation: str):
    broken = MODELS.clone()
    broken[1] = torch.nan
    heard = [True, False, True]
    assert average(heard, aggregation, broken) == average(heard, aggregation)


def test_published_average_excludes_the_last_arrival_from_the_sum_only():
    ones = torch.ones(3, 2).double()
    assert average([True] * 3, "published", ones, torch.tensor([1.0, 2.0, 3.0]).double()) == [
        0.5,
        0.5,
    ]
    assert average([True] * 3, "published") == [5 / 8, 50 / 8]
    assert average([True, True, False], "published") == pytest.approx([1 / 3, 10 / 3])


def test_published_average_multiplies_a_single_arrival_by_its_size():
    assert average([False, False, True], "published") == [20.0, 200.0]


def test_published_coefficients_include_all_workers_in_the_first_round():
    assert average([False] * 3, "published", number=0) == average([True] * 3, "published")
    assert average([False] * 3, "exact", number=0) == BEFORE.tolist()


def expected_model(aggregation: str, success: list[float]) -> torch.Tensor:
    """The mean over all 2^L patterns of arrivals, each with its probability."""
    mean = torch.zeros(2, dtype=torch.float64)
    for pattern in itertools.product([False, True], repeat=3):
        chances = [q if arrived else 1 - q for q, arrived in zip(success, pattern, strict=True)]
        probability = chances[0] * chances[1] * chances[2]
        if probability:
            rates = torch.tensor(success, dtype=torch.float64)
            found = average(list(pattern), aggregation, success=rates)
            mean += probability * torch.tensor(found, dtype=torch.float64)
    return mean


def test_unbiased_average_has_the_expectation_without_losses():
    full = SIZES @ MODELS / SIZES.sum()
    success = [0.9, 0.05, 0.4]
    torch.testing.assert_close(expected_model("unbiased", success), full, rtol=1e-12, atol=0)
    # The exact average is pulled towards the worker that arrives most often.
    assert (expected_model("exact", success) - full).abs().max() > 0.1


def test_unbiased_average_excludes_workers_that_cannot_arrive():
    senders = (SIZES[[0, 2]] @ MODELS[[0, 2]]) / SIZES[[0, 2]].sum()
    found = expected_model("unbiased", [0.9, 0.0, 0.4])
    torch.testing.assert_close(found, senders, rtol=1e-12, atol=0)


def test_unbiased_average_is_exact_without_losses():
    assert average([True] * 3, "unbiased", success=1.0) == pytest.approx(average([True] * 3))


def test_every_average_runs_by_name(small_task: Task):
    scenario = Scenario(workers=3, pmax_dbw=-40)
    curves = {
        name: Federation(
            small_task,
            {"max": FullPower(scenario)},
            scenario,
            FederationSettings(rounds=3, aggregation=name),
        )
        .run()
        .policies["max"][0]
        for name in ("exact", "unbiased", "published")
    }
    assert len({run.arrivals for run in curves.values()}) == 1
    assert 0 < sum(curves["exact"].arrivals) < 9
