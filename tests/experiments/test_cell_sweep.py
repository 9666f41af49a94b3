from __future__ import annotations

import csv

import numpy as np
import pytest

from feduplink.experiments.cell_sweep import Sweep
from feduplink.experiments.judged_settings import Setting

from .made import figures, sweep

#: Two values, two seeds; pdm is absent at the second value, orth silent in one seed there.
SWEEP = Sweep.from_settings(
    "workers",
    [8, 16],
    [
        [
            Setting(policies={"pdm": figures(0.5, 0.2), "orth": figures(0.3, 0.4)}),
            Setting(policies={"pdm": figures(0.7, 0.4, feasible=None), "orth": figures(0.4, 0.2)}),
        ],
        [
            Setting(policies={"orth": figures(0.1, 0.1, feasible=None)}),
            Setting(policies={"orth": figures(0.0, None, feasible=False)}),
        ],
    ],
)


def _seeds(**objectives: tuple[float, ...]) -> Sweep:
    """One value of the parameter, a seed for every objective."""
    made = sweep(**{name: [(0.0, 0.1)] for name in objectives})
    for name, values in objectives.items():
        made.policies[name] = [[figures(value) for value in values]]
    return made


def test_means_over_the_seeds():
    assert SWEEP.means("pdm", "objective") == [pytest.approx(0.6), pytest.approx(np.nan, nan_ok=1)]
    assert SWEEP.means("orth", "objective") == pytest.approx([0.35, 0.05])
    assert SWEEP.mean("orth", 1, "shortfall") == 0.125
    assert SWEEP.seeds("pdm", 0, "weighted_per") == [0.2, 0.4]
    assert SWEEP.seeds("pdm", 1, "weighted_per") == []


def test_a_seed_without_errors_to_speak_of_leaves_no_mean():
    assert SWEEP.means("orth", "weighted_per") == pytest.approx([0.3, np.nan], nan_ok=True)


def test_one_seed_that_misses_is_missed_and_one_that_cannot_tell_leaves_it_open():
    assert SWEEP.feasible("orth", 0) is True
    assert SWEEP.feasible("pdm", 0) is None
    assert SWEEP.feasible("orth", 1) is False


def test_verdicts_in_words():
    assert SWEEP.verdicts("orth") == "orth feasible 2, inconclusive 1, infeasible 1 of 4"
    assert SWEEP.verdicts("pdm") == "pdm feasible 1, inconclusive 1, infeasible 0 of 2"


def test_losses_are_errors_and_what_the_objective_lacks():
    assert SWEEP.losses("pdm", 0, "objective") == pytest.approx([0.5, 0.3])
    assert SWEEP.losses("pdm", 0, "weighted_per") == [0.2, 0.4]


def test_ahead_is_to_lose_less_where_both_exist():
    clear = sweep(a=[(0.1, 0.1), (0.2, 0.4)], b=[(0.2, 0.2), (0.1, 0.3)])
    clear.policies["c"] = [clear.policies["b"][0], []]
    assert clear.ahead("a", "b", "objective") == [False, True]
    assert clear.ahead("b", "a", "objective") == [True, False]
    assert clear.ahead("a", "b", "weighted_per") == [True, False]
    assert clear.ahead("a", "c", "weighted_per") == [True]


def test_a_silent_policy_is_neither_ahead_nor_behind():
    clear = sweep(a=[(0.1, 0.1), (0.2, None)], b=[(0.2, 0.2), (0.1, 0.3)])
    assert clear.ahead("a", "b", "weighted_per") == [True, None]
    assert clear.ahead("b", "a", "weighted_per") == [False, None]


def test_seeds_are_compared_one_by_one():
    """A small lead with every seed counts, however far apart the seeds are."""
    paired = _seeds(a=(0.51, 0.81, 0.31, 0.66), b=(0.50, 0.80, 0.30, 0.65))
    assert paired.ahead("a", "b", "objective") == [True]
    assert paired.ahead("b", "a", "objective") == [False]
    shuffled = _seeds(a=(0.51, 0.81, 0.31, 0.66), b=(0.80, 0.30, 0.65, 0.50))
    assert shuffled.ahead("a", "b", "objective") == [None]


def test_equal_policies_and_single_seeds_decide_nothing():
    assert _seeds(a=(0.5, 0.6), b=(0.5, 0.6)).ahead("a", "b", "objective") == [None]
    assert _seeds(a=(0.9,), b=(0.1,)).ahead("a", "b", "objective") == [None]


def test_means_in_words_with_their_standard_errors():
    # |difference| / 2 is the standard error of two values
    assert SWEEP.in_words(("pdm", "orth"), "objective") == (
        "pdm 0.600 ± 0.100, –; orth 0.350 ± 0.050, 0.050 ± 0.050"
    )
    assert SWEEP.in_words(("pdm", "orth"), "weighted_per") == (
        "pdm 30.0 ± 10.0 %, –; orth 30.0 ± 10.0 %, –"
    )
    assert _seeds(a=(0.25,)).in_words(("a",), "objective") == "a 0.250"


def test_csv_has_a_row_for_every_figure():
    rows = list(csv.DictReader(SWEEP.to_csv().splitlines()))
    assert [(row["policy"], row["workers"], row["run"]) for row in rows] == [
        ("pdm", "8", "0"),
        ("pdm", "8", "1"),
        ("orth", "8", "0"),
        ("orth", "8", "1"),
        ("orth", "16", "0"),
        ("orth", "16", "1"),
    ]
    assert rows[0] == {
        "policy": "pdm",
        "workers": "8",
        "run": "0",
        "objective": "0.5",
        "weighted_per": "0.2",
        "participation": "0.5",
        "feasible": "True",
        "shortfall": "-0.1",
        "shortfall_error": "0.05",
        "repaired_objective": "0.5",
    }
    assert [row["feasible"] for row in rows[-2:]] == ["", "False"]
    assert rows[-1]["weighted_per"] == ""


def test_json_and_back():
    assert Sweep.model_validate_json(SWEEP.model_dump_json()) == SWEEP
