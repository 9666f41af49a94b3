from __future__ import annotations

import csv

import numpy as np
import pytest

from feduplink.experiments.settings import Setting
from feduplink.experiments.sweep import Sweep

from .made import figures, sweep

#: Two values, two seeds; pdm is absent at the second value, orth silent in one seed there.
SWEEP = Sweep.of(
    "workers",
    [8, 16],
    [
        [
            Setting(policies={"pdm": figures(0.5, 0.2), "orth": figures(0.3, 0.4)}),
            Setting(policies={"pdm": figures(0.7, 0.4), "orth": figures(0.4, 0.2)}),
        ],
        [
            Setting(policies={"orth": figures(0.1, 0.1)}),
            Setting(policies={"orth": figures(0.0, None, violation=0.25)}),
        ],
    ],
)


def test_means_over_the_seeds():
    assert SWEEP.means("pdm", "objective") == [pytest.approx(0.6), pytest.approx(np.nan, nan_ok=1)]
    assert SWEEP.means("orth", "objective") == pytest.approx([0.35, 0.05])
    assert SWEEP.mean("orth", 1, "shortfall") == 0.125
    assert SWEEP.seeds("pdm", 0, "weighted_per") == [0.2, 0.4]
    assert SWEEP.seeds("pdm", 1, "weighted_per") == []


def test_a_seed_without_errors_to_speak_of_leaves_no_mean():
    assert SWEEP.means("orth", "weighted_per") == pytest.approx([0.3, np.nan], nan_ok=True)


def test_below_counts_only_values_where_both_exist():
    clear = sweep(a=[(0.1, 0.1), (0.2, None)], b=[(0.2, 0.2), (0.1, 0.3)])
    clear.policies["c"] = [clear.policies["b"][0], []]
    assert clear.below("a", "b", "objective") == [True, False]
    assert clear.below("b", "a", "objective") == [False, True]
    assert clear.below("a", "c", "objective") == [True]


def test_a_silent_policy_is_neither_below_nor_above():
    clear = sweep(a=[(0.1, 0.1), (0.2, None)], b=[(0.2, 0.2), (0.1, 0.3)])
    assert clear.below("a", "b", "weighted_per") == [True, None]
    assert clear.below("b", "a", "weighted_per") == [False, None]


def test_means_in_words():
    assert SWEEP.told(("pdm", "orth"), "objective") == "pdm 0.600, –; orth 0.350, 0.050"
    assert SWEEP.told(("pdm", "orth"), "weighted_per") == "pdm 30.0 %, –; orth 30.0 %, –"


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
    assert rows[1] == {
        "policy": "pdm",
        "workers": "8",
        "run": "1",
        "objective": "0.7",
        "weighted_per": "0.4",
        "participation": "0.5",
        "feasible": "True",
        "shortfall": "0.0",
        "shortfall_error": "0.0",
        "repaired_objective": "0.7",
    }
    assert rows[-1]["weighted_per"] == ""


def test_json_and_back():
    assert Sweep.model_validate_json(SWEEP.model_dump_json()) == SWEEP
