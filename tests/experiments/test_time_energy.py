from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from feduplink.experiments import time_energy
from feduplink.experiments.compared_schedules import FIFTH, SCHEDULES
from feduplink.experiments.federations import ALL, Federations
from feduplink.experiments.time_energy import ALIKE, NOISY, SHOWN, SKEWED
from feduplink.storage.run_directory import Claim

from .made import FAILS, HOLDS, IN_PART, OPEN, history, verdicts

#: Everyone ends at 0.1 and gets there in the first round.
ERRORS: dict[str, float | Sequence[float]] = dict.fromkeys((*ALL, *SCHEDULES), 0.1)
COSTS = {name: (100.0, 10.0) for name in ERRORS if name != "ideal"}
CHEAP_PDX = {"pdx": (99.0, 9.0), "tdma": (200.0, 4.0)}


def _claims(
    costs: Mapping[str, tuple[float, float]],
    errors: Mapping[str, float | Sequence[float]] | None = None,
) -> list[Claim]:
    """Seconds and joules of a round; the others need 100 s and 10 J."""
    made = history({**ERRORS, **(errors or {})}, {**COSTS, **costs})
    return time_energy.claims(Federations(comparisons=dict.fromkeys((ALIKE, NOISY, SKEWED), made)))


def test_what_is_shown_was_run():
    assert set(SHOWN) < {*ALL, *SCHEDULES}


@pytest.mark.parametrize(
    ("costs", "expected"),
    [
        (CHEAP_PDX, [HOLDS, HOLDS, HOLDS]),
        ({"pdx": (90.0, 10.0), "tdma": (170.0, 5.0)}, [FAILS, IN_PART, IN_PART]),
        ({"pdx": (110.0, 11.0), "tdma": (110.0, 11.0)}, [HOLDS, FAILS, FAILS]),
        ({**CHEAP_PDX, "openloop": (80.0, 10.0)}, [FAILS, HOLDS, HOLDS]),
        # Whoever silences workers has no part in the first claim.
        ({**CHEAP_PDX, "orth": (1.0, 1.0)}, [HOLDS, HOLDS, HOLDS]),
    ],
)
def test_what_a_round_costs(costs: Mapping[str, tuple[float, float]], expected: list[str]):
    assert verdicts(_claims(costs))[:3] == expected


def test_shares_are_told():
    _, power, access, *_ = _claims({"pdx": (50.0, 8.0), "tdma": (200.0, 2.0)})
    assert power.measured == "50% and 80% of the time and energy of full power"
    assert access.measured == (
        "tdma 400% and 25%, ofdma 200% and 125% of the time and energy of pdx"
    )


def _about(claims: list[Claim], words: str, label: str) -> Claim:
    (found,) = [c for c in claims if words in c.claim and c.claim.endswith(f"data {label}")]
    return found


@pytest.mark.parametrize("label", [ALIKE, NOISY, SKEWED])
def test_letting_few_send_is_judged_by_what_it_takes_to_learn(label: str):
    """Three rounds of orth are cheaper in joules, not in seconds; rand never gets there."""
    late = (0.9, 0.9, 0.1, *(0.1,) * 10)
    claims = _claims({"orth": (40.0, 3.0), "rand": (1.0, 1.0)}, {"orth": late, "rand": 0.2})
    assert len(claims) == 3 + 3 * 4
    assert _about(claims, "saves time", label).verdict == FAILS
    energy = _about(claims, "saves energy", label)
    assert energy.verdict == IN_PART
    assert "orth 9 J in 3 rounds" in energy.measured
    assert "rand not reached in 2 of 2 runs" in energy.measured
    end = _about(claims, "ends with a higher error", label)
    assert end.verdict == IN_PART
    assert "rand 0.2000 ± 0.0000" in end.measured


def test_few_that_learn_as_well_at_a_lower_price():
    claims = _claims({"orth": (10.0, 1.0), "rand": (10.0, 1.0)})
    assert _about(claims, "saves time", ALIKE).verdict == HOLDS
    assert _about(claims, "saves energy", SKEWED).verdict == HOLDS
    assert _about(claims, "ends with a higher error", NOISY).verdict == OPEN


def test_a_fifth_of_the_rounds_has_to_save_both_time_and_energy():
    words = "in a fifth of the rounds"
    cheap = _claims({FIFTH: (90.0, 9.0)})
    assert _about(cheap, words, ALIKE).verdict == HOLDS
    dear = _claims({FIFTH: (90.0, 11.0)})
    assert _about(dear, words, SKEWED).verdict == IN_PART
    never = _claims({FIFTH: (1.0, 1.0)}, {FIFTH: 0.2})
    assert _about(never, words, NOISY).verdict == FAILS
