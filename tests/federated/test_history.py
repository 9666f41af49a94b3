from __future__ import annotations

import json
import math

import pytest

from feduplink.federated import FederatedHistory, RunHistory


def run(errors, seconds=None, joules=None) -> RunHistory:
    count = len(errors)
    nothing = (None,) * count
    return RunHistory(
        error=tuple(errors),
        arrivals=(2,) * count,
        transmitting=(3,) * count,
        airtime_s=tuple(seconds) if seconds else nothing,
        energy_j=tuple(joules) if joules else nothing,
        sent_bytes=(100,) * count,
    )


FAST = run([0.5, 0.3, 0.31, 0.2], [1.0, 2.0, 3.0, 4.0], [0.1, 0.1, 0.1, 0.1])
SLOW = run([0.6, 0.5, 0.4, 0.3], [10.0, 20.0, 30.0, 40.0], [1.0, 1.0, 1.0, 1.0])
IDEAL = run([0.5, 0.2, 0.1, 0.1])
HISTORY = FederatedHistory("task", "error", {"p": (FAST, SLOW), "ideal": (IDEAL, IDEAL)})


def test_cost_includes_the_first_round_at_the_target():
    assert FAST.cost_to(0.3, "rounds") == 2
    assert FAST.cost_to(0.3, "airtime_s") == 3.0
    assert FAST.cost_to(0.25, "airtime_s") == 10.0
    assert FAST.cost_to(0.25, "energy_j") == pytest.approx(0.4)


def test_unreached_or_undefined_cost_is_none():
    assert FAST.cost_to(0.1, "rounds") is None
    assert IDEAL.cost_to(0.2, "rounds") == 2
    assert IDEAL.cost_to(0.2, "airtime_s") is None
    assert IDEAL.cumulative("energy_j") is None


def test_median_cost_counts_failed_runs_as_infinite():
    assert HISTORY.median_cost_to("p", 0.3, "airtime_s") == (3.0 + 100.0) / 2
    assert HISTORY.median_cost_to("p", 0.25, "airtime_s") is None
    assert HISTORY.median_cost("p", "airtime_s") == 7.0
    assert HISTORY.median_cost("ideal", "airtime_s") is None


def test_cost_of_runs_that_miss_the_target_is_infinite():
    assert HISTORY.costs_to("p", 0.3, "rounds") == [2, 4]
    assert HISTORY.costs_to("p", 0.25, "airtime_s") == [10.0, math.inf]
    assert HISTORY.costs_to("ideal", 0.2, "rounds") == [2, 2]
    assert HISTORY.costs_to("ideal", 0.2, "energy_j") == [math.inf, math.inf]


def test_only_selects_policies_in_the_given_order():
    both = HISTORY.only(("ideal", "p"))
    assert list(both.policies) == ["ideal", "p"]
    assert HISTORY.only(["p"]) == FederatedHistory("task", "error", {"p": (FAST, SLOW)})
    with pytest.raises(KeyError):
        HISTORY.only(["max"])


def test_final_error_is_the_mean_of_the_last_ten_rounds():
    long = run([0.9] * 5 + [0.1] * 5 + [0.3] * 5), run([0.5] * 15)
    history = FederatedHistory("task", "error", {"p": long})
    assert history.final_errors("p") == pytest.approx([0.2, 0.5])
    assert history.final_error("p") == pytest.approx(0.35)
    assert history.rounds == 15


def test_json_has_a_list_per_run_and_none_for_non_finite_values():
    broken = FederatedHistory("task", "error", {"p": (run([float("inf"), 0.5], [1.0, 2.0]),)})
    content = json.loads(json.dumps(broken.to_json(), allow_nan=False))["p"]
    assert content["final_error"] is None
    assert content["runs"][0]["error"] == [None, 0.5]
    assert content["runs"][0]["airtime_s"] == [1.0, 2.0]
    assert content["runs"][0]["energy_j"] == [None, None]
    assert content["runs"][0]["arrivals"] == [2, 2]
