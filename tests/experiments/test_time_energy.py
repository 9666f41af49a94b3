from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from feduplink.experiments.compared import SCHEDULE_FIFTH, SCHEDULES
from feduplink.experiments.federated_tasks import ALL_POLICIES, FederatedResult
from feduplink.experiments.time_energy import ALIKE, NOISY, SHOWN, SKEWED, DigitsCosts
from feduplink.storage.run_directory import Claim

from .made import FAILS, HOLDS, IN_PART, OPEN, history, verdicts

#: Everyone ends at 0.1 and gets there in the first round.
ERRORS: dict[str, float | Sequence[float]] = dict.fromkeys((*ALL_POLICIES, *SCHEDULES), 0.1)
COSTS = {name: (100.0, 10.0) for name in ERRORS if name != "ideal"}
CHEAP_PDX = {"pdx": (99.0, 9.0), "tdma": (200.0, 4.0)}


def _claims(
    costs: Mapping[str, tuple[float, float]],
    errors: Mapping[str, float | Sequence[float]] | None = None,
) -> list[Claim]:
    """Seconds and joules of a round; the others need 100 s and 10 J."""
    made = history({**ERRORS, **(errors or {})}, {**COSTS, **costs})
    return DigitsCosts().claims(
        FederatedResult(comparisons=dict.fromkeys((ALIKE, NOISY, SKEWED), made))
    )


def test_the_figure_shows_policies_that_are_run():
    assert set(SHOWN) < {*ALL_POLICIES, *SCHEDULES}


@pytest.mark.parametrize(
    ("costs", "expected"),
    [
        (CHEAP_PDX, [HOLDS, HOLDS, HOLDS]),
        ({"pdx": (90.0, 10.0), "tdma": (170.0, 5.0)}, [FAILS, IN_PART, IN_PART]),
        ({"pdx": (110.0, 11.0), "tdma": (110.0, 11.0)}, [HOLDS, FAILS, FAILS]),
        ({**CHEAP_PDX, "openloop": (80.0, 10.0)}, [FAILS, HOLDS, HOLDS]),
        # The first claim leaves out policies that silence workers.
        ({**CHEAP_PDX, "orth": (1.0, 1.0)}, [HOLDS, HOLDS, HOLDS]),
    ],
)
def test_claims_on_the_cost_of_a_round(
    costs: Mapping[str, tuple[float, float]], expected: list[str]
):
    assert verdicts(_claims(costs))[:3] == expected


def test_measured_shares_of_time_and_energy():
    _, power, access, *_ = _claims({"pdx": (50.0, 8.0), "tdma": (200.0, 2.0)})
    assert power.measured == "50% and 80% of the time and energy of full power"
    assert access.measured == (
        "tdma 400% and 25%, ofdma 200% and 125% of the time and energy of pdx"
    )


def _about(claims: list[Claim], words: str, label: str) -> Claim:
    (found,) = [c for c in claims if words in c.claim and c.claim.endswith(f"data: {label}")]
    return found


@pytest.mark.parametrize("label", [ALIKE, NOISY, SKEWED])
def test_silencing_workers_is_judged_by_the_cost_until_the_model_has_learned(label: str):
    """Three rounds of orth are cheaper in joules, not in seconds; rand never learns."""
    late = (0.9, 0.9, 0.1, *(0.1,) * 10)
    claims = _claims({"orth": (40.0, 3.0), "rand": (1.0, 1.0)}, {"orth": late, "rand": 0.2})
    assert len(claims) == 3 + 3 * 4
    assert _about(claims, "takes less time than pdx", label).verdict == FAILS
    energy = _about(claims, "takes less energy than pdx", label)
    assert energy.verdict == IN_PART
    assert "orth 9 J in 3 rounds" in energy.measured
    assert "rand not reached in 2 of 2 runs" in energy.measured
    end = _about(claims, "ends with a higher error", label)
    assert end.verdict == IN_PART
    assert "rand 0.2000 ± 0.0000" in end.measured


def test_silencing_workers_may_learn_as_well_at_a_lower_cost():
    claims = _claims({"orth": (10.0, 1.0), "rand": (10.0, 1.0)})
    assert _about(claims, "takes less time than pdx", ALIKE).verdict == HOLDS
    assert _about(claims, "takes less energy than pdx", SKEWED).verdict == HOLDS
    assert _about(claims, "ends with a higher error", NOISY).verdict == OPEN


def test_delivery_in_a_fifth_of_the_rounds_has_to_save_time_and_energy():
    words = "in a fifth of the rounds"
    cheap = _claims({SCHEDULE_FIFTH: (90.0, 9.0)})
    assert _about(cheap, words, ALIKE).verdict == HOLDS
    dear = _claims({SCHEDULE_FIFTH: (90.0, 11.0)})
    assert _about(dear, words, SKEWED).verdict == IN_PART
    never = _claims({SCHEDULE_FIFTH: (1.0, 1.0)}, {SCHEDULE_FIFTH: 0.2})
    assert _about(never, words, NOISY).verdict == FAILS
