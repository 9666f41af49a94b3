from __future__ import annotations

from feduplink.experiments import Bench, arrivals
from feduplink.experiments.arrivals import Arrivals

from .made import FAILS, HOLDS, IN_PART, verdicts

FEW = {name: [1, 5] for name in ("pdm", "rand", "orth", "rand:unselected", "orth:unselected")}


def test_claims():
    assert verdicts(arrivals.claims(Arrivals(arrivals={**FEW, "pdg": [6, 7]}))) == [HOLDS, HOLDS]
    assert verdicts(arrivals.claims(Arrivals(arrivals={**FEW, "pdg": [0, 5]}))) == [FAILS, FAILS]
    mixed = {**FEW, "pdg": [3, 4], "orth": [4, 4]}
    assert verdicts(arrivals.claims(Arrivals(arrivals=mixed))) == [IN_PART, IN_PART]


def test_csv_is_a_box_a_row():
    text = Arrivals(arrivals={"pdg": [0, 1, 2, 3, 8]}).to_csv()
    assert text.splitlines()[1] == "pdg,0,1,2,3,8,2.800"


def test_fifty_rounds_a_run_and_everyone_with_ideal(bench: Bench):
    found = arrivals.run(bench).arrivals
    assert {len(counts) for counts in found.values()} == {50 * bench.scale.runs}
    assert set(found["ideal"]) == {8}
    assert all(0 <= count <= 8 for counts in found.values() for count in counts)
