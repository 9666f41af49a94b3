from __future__ import annotations

import csv
import math
from pathlib import Path

import numpy as np
import pytest
import torch

from drawings import rendered, written
from feduplink import Scenario, draw_csi, make_channels
from feduplink.experiments.compared import SettingOutcome, evaluate_setting, make_cached_policy
from feduplink.experiments.context import ExperimentContext
from feduplink.experiments.parameter_sweeps import (
    CsiNoise,
    Interference,
    MaximumPower,
    NetworkSize,
    SweepResult,
    plot_sweep,
    with_csi_noise,
)
from feduplink.policies import judge_policy

from .made import FAILS, HOLDS, IN_PART, OPEN, Pairs, assert_drawn, outcome, sweep, verdicts
from .tiny import small_experiment

#: Two values, two seeds; pdm is absent at the second value, orth silent in one seed there.
SWEEP = SweepResult.from_settings(
    "workers",
    [8, 16],
    [
        [
            SettingOutcome(policies={"pdm": outcome(0.5, 0.2), "orth": outcome(0.3, 0.4)}),
            SettingOutcome(
                policies={"pdm": outcome(0.7, 0.4, feasible=None), "orth": outcome(0.4, 0.2)}
            ),
        ],
        [
            SettingOutcome(policies={"orth": outcome(0.1, 0.1, feasible=None)}),
            SettingOutcome(policies={"orth": outcome(0.0, None, feasible=False)}),
        ],
    ],
)


def _seeds(**objectives: tuple[float, ...]) -> SweepResult:
    """One value of the parameter, a seed for every objective."""
    made = sweep(**{name: [(0.0, 0.1)] for name in objectives})
    for name, values in objectives.items():
        made.policies[name] = [[outcome(value) for value in values]]
    return made


def test_means_over_the_seeds():
    assert SWEEP.means("pdm", "objective") == [pytest.approx(0.6), pytest.approx(np.nan, nan_ok=1)]
    assert SWEEP.means("orth", "objective") == pytest.approx([0.35, 0.05])
    assert SWEEP.mean("orth", 1, "shortfall") == 0.125
    assert SWEEP.seeds("pdm", 0, "weighted_per") == [0.2, 0.4]
    assert SWEEP.seeds("pdm", 1, "weighted_per") == []


def test_a_silent_seed_leaves_no_mean_of_the_packet_error_rate():
    assert SWEEP.means("orth", "weighted_per") == pytest.approx([0.3, np.nan], nan_ok=True)


def test_one_infeasible_seed_decides_and_an_inconclusive_one_leaves_it_open():
    assert SWEEP.feasible("orth", 0) is True
    assert SWEEP.feasible("pdm", 0) is None
    assert SWEEP.feasible("orth", 1) is False


def test_format_of_verdicts():
    assert SWEEP.format_verdicts("orth") == "orth feasible 2, inconclusive 1, infeasible 1 of 4"
    assert SWEEP.format_verdicts("pdm") == "pdm feasible 1, inconclusive 1, infeasible 0 of 2"


def test_losses_are_packet_errors_or_one_minus_the_objective():
    assert SWEEP.losses("pdm", 0, "objective") == pytest.approx([0.5, 0.3])
    assert SWEEP.losses("pdm", 0, "weighted_per") == [0.2, 0.4]


def test_better_is_to_lose_less_where_both_exist():
    clear = sweep(a=[(0.1, 0.1), (0.2, 0.4)], b=[(0.2, 0.2), (0.1, 0.3)])
    clear.policies["c"] = [clear.policies["b"][0], []]
    assert clear.is_better("a", "b", "objective") == [False, True]
    assert clear.is_better("b", "a", "objective") == [True, False]
    assert clear.is_better("a", "b", "weighted_per") == [True, False]
    assert clear.is_better("a", "c", "weighted_per") == [True]


def test_a_silent_policy_is_neither_better_nor_worse():
    clear = sweep(a=[(0.1, 0.1), (0.2, None)], b=[(0.2, 0.2), (0.1, 0.3)])
    assert clear.is_better("a", "b", "weighted_per") == [True, None]
    assert clear.is_better("b", "a", "weighted_per") == [False, None]


def test_seeds_are_compared_one_by_one():
    """A small lead with every seed counts, however far apart the seeds are."""
    paired = _seeds(a=(0.51, 0.81, 0.31, 0.66), b=(0.50, 0.80, 0.30, 0.65))
    assert paired.is_better("a", "b", "objective") == [True]
    assert paired.is_better("b", "a", "objective") == [False]
    shuffled = _seeds(a=(0.51, 0.81, 0.31, 0.66), b=(0.80, 0.30, 0.65, 0.50))
    assert shuffled.is_better("a", "b", "objective") == [None]


def test_equal_policies_and_single_seeds_decide_nothing():
    assert _seeds(a=(0.5, 0.6), b=(0.5, 0.6)).is_better("a", "b", "objective") == [None]
    assert _seeds(a=(0.9,), b=(0.1,)).is_better("a", "b", "objective") == [None]


def test_format_of_means_with_their_standard_errors():
    # |difference| / 2 is the standard error of two values
    assert SWEEP.format_means(("pdm", "orth"), "objective") == (
        "pdm 0.600 ± 0.100, –; orth 0.350 ± 0.050, 0.050 ± 0.050"
    )
    assert SWEEP.format_means(("pdm", "orth"), "weighted_per") == (
        "pdm 30.0 ± 10.0 %, –; orth 30.0 ± 10.0 %, –"
    )
    assert _seeds(a=(0.25,)).format_means(("a",), "objective") == "a 0.250"


def test_csv_has_a_row_per_outcome():
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
    assert SweepResult.model_validate_json(SWEEP.model_dump_json()) == SWEEP


BASELINES: dict[str, Pairs] = {
    "rand": [(0.3, 0.5), (0.2, 0.6)],
    "orth": [(0.4, 0.4), (0.3, 0.5)],
    "rand_unselected": [(0.3, 0.5), (0.2, 0.6)],
    "orth_unselected": [(0.4, 0.4), (0.3, 0.5)],
}
LEARNED: dict[str, Pairs] = {
    "pdm": [(0.5, 0.3), (0.4, 0.4)],
    "pdg": [(0.6, 0.2), (0.5, 0.3)],
}
OTHERS: dict[str, Pairs] = dict.fromkeys(("openloop", "dual", "pdx"), [(0.9, 0.1)] * 2)


def _interference(**changed: Pairs) -> SweepResult:
    return sweep(**{**BASELINES, **LEARNED, **OTHERS, **changed})


def test_interference_claims_that_hold():
    """Two of PDG and PDM, two for each reading of the baselines, one on the constraints."""
    assert verdicts(Interference().claims(_interference())) == [HOLDS] * 7


def test_interference_claims_that_do_not():
    """Few errors of few transmissions: the figure is the worse one, the objective the better."""
    result = _interference(
        rand=[(0.3, 0.1), (0.2, 0.1)],
        orth=[(0.4, 0.2), (0.3, 0.2)],
        pdm=[(0.6, 0.3), (0.4, 0.3)],
        pdg=[(0.5, 0.4), (0.5, 0.4)],
    )
    assert verdicts(Interference().claims(result))[:4] == [FAILS, IN_PART, FAILS, HOLDS]


@pytest.mark.parametrize(("reading", "places"), [("", (2, 3)), ("_unselected", (4, 5))])
def test_each_reading_of_the_baselines_is_judged_by_itself(reading: str, places: tuple[int, int]):
    better: Pairs = [(0.95, 0.01)] * 2
    claims = Interference().claims(
        _interference(**{f"rand{reading}": better, f"orth{reading}": better})
    )
    assert [n for n, claim in enumerate(claims) if claim.verdict == FAILS] == list(places)
    told = f"rand{reading.replace('_', ':')} 1.0 ± 0.0 %, 1.0 ± 0.0 %"
    assert claims[places[0]].measured.startswith(told)


@pytest.mark.parametrize(
    ("pdm", "pdg", "verdict"),
    [
        (True, None, IN_PART),
        (True, False, IN_PART),
        (False, False, FAILS),
        (False, None, FAILS),
        (None, None, OPEN),
    ],
)
def test_the_claim_on_constraints_is_about_the_learned_policies(
    pdm: bool | None, pdg: bool | None, verdict: str
):
    result = _interference()
    for name, feasible in (("pdm", pdm), ("pdg", pdg)):
        result.policies[name] = [[outcome(0.5, feasible=feasible)] * 2] * 2
    claim = Interference().claims(result)[-1]
    assert claim.verdict == verdict
    assert claim.measured.endswith("; pdx feasible 4, inconclusive 0, infeasible 0 of 4")


def test_measured_has_means_and_standard_errors():
    result = _interference(pdm=[(0.5, None), (0.4, 0.4)])
    per, objective, *_ = Interference().claims(result)
    assert per.measured == "pdm –, 40.0 ± 0.0 %; pdg 20.0 ± 0.0 %, 30.0 ± 0.0 %"
    assert (
        objective.measured == "pdm 0.500 ± 0.000, 0.400 ± 0.000; pdg 0.600 ± 0.000, 0.500 ± 0.000"
    )


NOT_LEARNED = ("rand", "orth", "rand_unselected", "orth_unselected", "openloop", "dual", "pdx")


@pytest.mark.parametrize(
    ("pdm", "pdg", "optimum", "verdict"),
    [
        (0.50, 0.51, 0.515, HOLDS),
        (0.50, 0.51, 0.60, IN_PART),
        (0.45, 0.51, 0.515, IN_PART),
        (0.40, 0.50, 0.60, FAILS),
    ],
)
def test_the_learned_policies_are_equal_and_optimal_at_the_smallest_power(
    pdm: float, pdg: float, optimum: float, verdict: str
):
    result = sweep(
        **{name: [(0.1, 0.5)] * 2 for name in NOT_LEARNED},
        pdm=[(pdm, 0.2), (0.1, 0.2)],
        pdg=[(pdg, 0.1), (0.9, 0.1)],
        optimum=[(optimum, 0.1), (0.9, 0.1)],
    )
    *_, last = claims = MaximumPower().claims(result)
    assert last.verdict == verdict
    assert verdicts(claims)[:2] == [HOLDS, HOLDS]
    assert len(claims) == 8  # and the others of interference
    assert "silences 50%" in last.measured


SIZES = 5
AT_ALL_SIZES: dict[str, Pairs] = {
    name: [(0.9, 0.01)] * SIZES for name in ("openloop", "pdx", "optimum")
}


def _sizes(**policies: Pairs) -> SweepResult:
    return sweep(**policies).model_copy(update={"values": [6.0, 8.0, 16.0, 24.0, 32.0]})


def _falling(first: float, step: float, per: float) -> Pairs:
    return [(first - step * index, per) for index in range(SIZES)]


def test_network_size_pdg_better_and_losing_less():
    result = _sizes(
        rand=_falling(0.5, 0.1, 0.5),
        orth=_falling(0.5, 0.1, 0.4),
        pdg=_falling(0.8, 0.05, 0.3),
        **AT_ALL_SIZES,
    )
    claims = NetworkSize().claims(result)
    assert verdicts(claims) == [HOLDS, HOLDS]
    # From the second size, 8 workers, to the last.
    assert "rand −0.300, orth −0.300, pdg −0.150" in claims[1].measured


def test_network_size_pdg_worse_than_one_and_losing_more():
    result = _sizes(
        rand=_falling(0.5, 0.01, 0.5),
        orth=_falling(0.5, 0.01, 0.2),
        pdg=_falling(0.8, 0.05, 0.3),
        **AT_ALL_SIZES,
    )
    assert verdicts(NetworkSize().claims(result)) == [IN_PART, FAILS]


NOISES = 7
STEADY = {
    name: [(0.3, 0.5)] * NOISES for name in ("rand", "orth", "rand_unselected", "orth_unselected")
}


def _worse(first: float, step: float) -> list[tuple[float, float]]:
    return [(0.9 - 0.1 * index, first + step * index) for index in range(NOISES)]


def test_csi_noise_claims_that_hold():
    result = sweep(**STEADY, pdm=_worse(0.2, 0.02), pdg=_worse(0.1, 0.02), pdx=_worse(0.1, 0))
    assert verdicts(CsiNoise().claims(result)) == [HOLDS] * 4


def test_csi_noise_claims_that_do_not():
    """pdg gets better with the noise, and orth is sensitive to it in one of its readings."""
    shaken = {**STEADY, "orth": [(0.3, 0.5)] * 6 + [(0.35, 0.5)]}
    result = sweep(**shaken, pdm=_worse(0.1, 0.01), pdg=_worse(0.3, -0.01), pdx=_worse(0.1, 0))
    assert verdicts(CsiNoise().claims(result)) == [FAILS, IN_PART, IN_PART, HOLDS]


def test_noise_reaches_the_policies_and_not_the_optimum(context: ExperimentContext):
    """The noise of the smallest variance is lost in gains of thousands."""
    result = small_experiment("csi-noise").run(context)
    clean = evaluate_setting(context, Scenario(), 0).policies
    assert result.values == [1.0, 1e4]
    assert result.policies["optimum"] == [[clean["optimum"]]] * 2
    faint, strong = result.means("pdx", "objective")
    assert abs(faint - clean["pdx"].objective) < 0.02
    assert strong < faint
    informed = with_csi_noise(make_cached_policy(context, "pdx", Scenario(), 0), 1e4)
    test = make_channels(Scenario(), context.scale.channels, seed=0).test
    assert strong == judge_policy(informed, test, informed.scenario).objective


def test_the_variance_changes_the_powers_of_pdx(context: ExperimentContext):
    policy = make_cached_policy(context, "pdx", Scenario(), 0)
    informed = with_csi_noise(policy, 1e5)
    assert informed.scenario.csi_noise == 1e5
    csi = draw_csi(Scenario(), 4, torch.Generator().manual_seed(0))
    assert not torch.equal(informed.allocate(csi), policy.allocate(csi))


@pytest.mark.filterwarnings("error")
def test_the_figure_with_a_missing_and_a_silent_policy(tmp_path: Path):
    result = sweep(
        pdm=[(0.5, 0.3), (0.5, 0.3)],
        orth=[(0.4, 0.4), (0.0, None)],
        pdg=[(0.6, 0.2), (0.5, 0.3)],
        optimum=[(0.7, 0.1), (0.6, 0.2)],
    )
    result.policies["pdm"][1] = []
    result.policies["pdg"][1] = [
        outcome(0.5, 0.3, feasible=False),
        outcome(0.4, 0.2, feasible=None),
    ]
    assert_drawn(Interference(), result, tmp_path)


pytestmark = pytest.mark.filterwarnings("error")


def test_marks_of_equal_policies_are_side_by_side():
    made = sweep(pdg=[(0.6, 0.2), (0.5, 0.3)], pdx=[(0.6, 0.2), (0.5, 0.3)])
    drawing = rendered(plot_sweep(made))
    per = drawing.axes[0]
    marks = [line for line in per.lines if len(line.get_xdata()) == 1]
    places = [line.get_transform().transform(line.get_xydata()[0]) for line in marks]
    assert len(marks) == 4
    assert len({round(x) for x, _ in places}) == 4
    low, high = per.get_ylim()
    assert low < 0.2
    assert high > 0.3


def test_marks_of_a_sweep_show_the_verdict_over_the_seeds():
    made = sweep(pdg=[(0.6, 0.2)] * 3)
    for place, feasible in enumerate([(True, True), (True, False), (True, None)]):
        made.policies["pdg"][place] = [outcome(0.6, 0.2, feasible=one) for one in feasible]
    drawing = rendered(plot_sweep(made))
    marks = [line for line in drawing.axes[0].lines if len(line.get_xdata()) == 1]
    colour = marks[0].get_color()
    assert [(mark.get_markerfacecolor(), mark.get_fillstyle()) for mark in marks] == [
        (colour, "full"),
        ("white", "full"),
        (colour, "left"),
    ]
    (note,) = [text for text in written(drawing) if "side by side" in text]
    assert "hollow" in note
    assert "half-filled" in note


def test_a_sweep_of_one_value_is_drawn():
    drawing = rendered(plot_sweep(sweep(pdg=[(0.6, None)], mine=[(0.0, 0.3)])))
    heights = [float(y) for line in drawing.axes[0].lines for y in line.get_ydata()]
    assert {height for height in heights if math.isfinite(height)} == {0.3}  # pdg has none
