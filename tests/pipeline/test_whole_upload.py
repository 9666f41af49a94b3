"""An objective of the whole upload: judged, tuned and trained for, but not searched."""

from __future__ import annotations

import pytest

from feduplink import InputError, Scenario, evaluate, find_optimum, make_channels, train
from link.whole_measures import Throughput

SCENARIO = Scenario(workers=3, rate_min=0, ee_min=0, objective="link.whole_measures:Throughput")


def test_policies_are_judged_tuned_and_trained_for_it():
    channels = make_channels(SCENARIO, 40)
    run = train(SCENARIO, "pdg", channels=channels, epochs=3)
    assert all(bool(weight.isfinite().all()) for weight in run.policy.parameters())
    first, *_, last = (epoch.objective for epoch in run.history)
    assert last > first
    result = evaluate(SCENARIO, ["max", "openloop"], channels=channels)
    training = evaluate(SCENARIO, ["max", "openloop"], channels=channels.training)
    assert training["openloop"].objective >= training["max"].objective
    assert result["openloop"].objective > 0


@pytest.mark.parametrize(
    "refuse",
    [
        lambda channels: find_optimum(SCENARIO, channels.test),
        lambda channels: evaluate(SCENARIO, ["dual"], channels=channels),
        lambda channels: evaluate(SCENARIO, ["pdx"], channels=channels),
    ],
)
def test_the_lagrangian_refuses_it_in_one_sentence(refuse):
    channels = make_channels(SCENARIO, 10)
    sentence = f"^measure: {Throughput.name} depends on the whole upload; accepted"
    with pytest.raises(InputError, match=sentence):
        refuse(channels)
