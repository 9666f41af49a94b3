from __future__ import annotations

from pathlib import Path

from feduplink.experiments.arrivals import Arrivals, ArrivalsResult
from feduplink.experiments.context import ExperimentContext

from .made import FAILS, HOLDS, IN_PART, OPEN, assert_drawn, verdicts

#: Two rounds with each of two seeds that agree.
FEW = {name: [[1, 5]] * 2 for name in ("pdm", "rand", "orth", "rand:unselected", "orth:unselected")}


def _verdicts(**changed: list[list[int]]) -> list[str]:
    """Mean and deviation in the first reading of the baselines, then in the second."""
    named = {name.replace("_", ":"): seeds for name, seeds in changed.items()}
    return verdicts(Arrivals().claims(ArrivalsResult(arrivals={**FEW, **named})))


def test_claims():
    assert _verdicts(pdg=[[6, 7]] * 2) == [HOLDS] * 4
    assert _verdicts(pdg=[[0, 5]] * 2) == [FAILS] * 4
    assert _verdicts(pdg=[[3, 4]] * 2, orth=[[4, 4]] * 2) == [IN_PART, IN_PART, HOLDS, HOLDS]
    unselected = {"pdg": [[3, 4]] * 2, "orth_unselected": [[4, 4]] * 2}
    assert _verdicts(**unselected) == [HOLDS, HOLDS, IN_PART, IN_PART]


def test_a_difference_within_the_spread_of_the_seeds_is_undecided():
    """Means 6.5 and 2.5 with one seed each, against 3 with both."""
    found = _verdicts(pdg=[[6, 7], [2, 3]])
    assert found == [OPEN, HOLDS, OPEN, HOLDS]


def test_means_and_deviations_have_standard_errors_over_the_seeds():
    mean, deviation, *_ = Arrivals().claims(
        ArrivalsResult(arrivals={**FEW, "pdg": [[6, 8], [4, 4]]})
    )
    assert mean.measured.endswith("pdg 5.50 ± 1.50")
    assert deviation.measured.startswith("standard deviations: pdm 2.00 ± 0.00")
    assert deviation.measured.endswith("pdg 0.50 ± 0.50")


def test_csv_has_a_box_per_policy_and_seed():
    text = ArrivalsResult(arrivals={"pdg": [[0, 1, 2, 3, 8], [5, 5]]}).to_csv()
    assert text.splitlines() == [
        "policy,run,least,lower_quartile,median,upper_quartile,most,mean,deviation,"
        + ",".join(f"rounds_with_{count}" for count in range(9)),
        "pdg,0,0,1,2,3,8,2.8,2.78568,1,1,1,1,0,0,0,0,1",
        "pdg,1,5,5,5,5,5,5,0,0,0,0,0,0,2,0,0,0",
    ]


def test_fifty_rounds_per_run_and_everyone_with_ideal(context: ExperimentContext):
    found = Arrivals().run(context).arrivals
    assert {len(seeds) for seeds in found.values()} == {context.scale.seeds}
    counts = {name: [count for seed in seeds for count in seed] for name, seeds in found.items()}
    rounds = 50 * context.scale.runs * context.scale.seeds
    assert {len(every) for every in counts.values()} == {rounds}
    assert set(counts["ideal"]) == {8}
    assert all(0 <= count <= 8 for every in counts.values() for count in every)


def test_the_figure(tmp_path: Path):
    assert_drawn(
        Arrivals(), ArrivalsResult(arrivals={"pdg": [[1, 5], [2]], "a:b": [[0]]}), tmp_path
    )
