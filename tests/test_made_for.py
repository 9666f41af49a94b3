from __future__ import annotations

import pytest

from feduplink import FullPower, Scenario
from feduplink.policies import made_for, made_for_sentence, shipped_pdx

HERE = Scenario()


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("objective", "rate"),
        ("utility", "proportional-fairness"),
        ("weights", "uniform"),
        ("rate_min", 0.5),
        ("ee_min", (50.0,) * 8),
        ("interference", 2.0),
        ("channel_model", "hata-urban"),
        ("antennas", 4),
        ("workers", 12),
        ("csi_noise", 1.0),
    ],
)
def test_every_field_that_differs_is_named(field: str, value: object):
    differences = made_for(FullPower(HERE.replace(**{field: value})), HERE)
    dumped = HERE.replace(**{field: value}).model_dump(mode="json")[field]
    assert differences == {field: (dumped, HERE.model_dump(mode="json")[field])}


def test_the_same_values_written_per_worker_are_no_difference():
    weights = tuple(HERE.worker_weights.tolist())
    same = HERE.replace(rate_min=(0.7,) * 8, pmax_dbw=(-20.0,) * 8, weights=weights)
    assert made_for(FullPower(same), HERE) == {}


def test_that_pdx_aims_above_the_thresholds_is_no_difference():
    policy = shipped_pdx()
    assert (policy.point.thresholds > policy.problem.thresholds).all()
    assert made_for(policy, HERE) == {}
    assert set(made_for(policy, HERE.replace(rate_min=0.8))) == {"rate_min"}


def test_the_sentence_gives_both_values_and_says_what_becomes_of_the_powers():
    sentence = made_for_sentence("pdg", {"pmax_dbw": (0.0, -20.0), "rate_min": ([0.5, 0.7], 0.7)})
    assert sentence == (
        "pdg was made for another scenario: pmax_dbw 0 (here -20), rate_min 0.5 to 0.7 (here 0.7); "
        "its powers are cut at -20 dBW"
    )
