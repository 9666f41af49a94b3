from __future__ import annotations

import pytest
import torch

from feduplink import Scenario, draw_csi
from feduplink.experiments import compared_policies
from feduplink.experiments.compared_policies import (
    COMPARED,
    LEARNED,
    READINGS,
    policies_for,
    policy_for,
    training_history,
)
from feduplink.experiments.experiment_context import ExperimentContext

SCENARIO = Scenario()
CSI = draw_csi(SCENARIO, 6, torch.Generator().manual_seed(3))


def _fail(*_args: object, **_kwargs: object) -> None:
    raise AssertionError("made again")


def test_every_policy_is_usable_and_what_takes_time_is_made_once(
    context: ExperimentContext, monkeypatch: pytest.MonkeyPatch
):
    first = policies_for(context, SCENARIO, 0)
    assert tuple(first) == COMPARED
    for maker in ("Training", "shipped_pdx"):
        monkeypatch.setattr(compared_policies, maker, _fail)
    monkeypatch.setattr(compared_policies.DualPolicy, "learned", _fail)
    again = policies_for(context, SCENARIO, 0)
    for name, policy in first.items():
        assert policy.name == name
        power = policy.allocate(CSI)
        assert power.shape == (6, 8)
        assert bool(((power >= 0) & (power <= SCENARIO.pmax_w * (1 + 1e-6))).all())
        assert torch.equal(power, again[name].allocate(CSI))
    with pytest.raises(AssertionError, match="made again"):
        policy_for(context, "pdg", SCENARIO, 1)


def test_both_readings_of_the_baselines_set_the_same_powers(context: ExperimentContext):
    for name in ("rand", "orth"):
        selected, unselected = (
            policy_for(context, reading, SCENARIO, 0).allocate(CSI)
            for reading in (name, f"{name}:unselected")
        )
        sending = selected > 0
        assert 0 < sending.sum() < (unselected > 0).sum()
        assert torch.equal(selected[sending], unselected[sending])


def test_readings_and_learned_policies_are_compared():
    assert {name for baselines in READINGS.values() for name in baselines} < set(COMPARED)
    assert set(LEARNED) < set(COMPARED)


def test_another_seed_or_scenario_is_another_policy(context: ExperimentContext):
    here, seed, scenario = (
        policy_for(context, "pdm", *which).allocate(CSI)
        for which in ((SCENARIO, 0), (SCENARIO, 1), (SCENARIO.replace(interference=2.0), 0))
    )
    assert not torch.equal(here, seed)
    assert not torch.equal(here, scenario)


@pytest.mark.parametrize("name", ["pdm", "pdg"])
def test_the_history_has_every_epoch(context: ExperimentContext, name: str):
    history = training_history(context, name, SCENARIO, 0)
    assert [epoch.number for epoch in history] == list(range(context.scale.epochs))
    assert all(len(epoch.constraints["rate"]) == 8 for epoch in history)
    assert all(0 < epoch.objective < 1 for epoch in history)
