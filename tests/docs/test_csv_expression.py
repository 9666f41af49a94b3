"""Expressions against numbers that can be counted on the fingers."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from csv_expression import SourceError, value_of

SWEEP = """policy,Pmax (dBW),run,objective,weighted_per,feasible
pdg,-40,0,0.5,0.1,True
pdg,-40,1,0.7,0.2,False
pdg,0,0,0.9,,
pdm,-40,0,0.25,0.4,True
pdm,0.0,0,0.35,0.4,True
"""


def rounds(comparison: str, policy: str, run: int, errors: list[float], airtime: float) -> str:
    return "".join(
        f'"{comparison}",mnist,{policy},{run},{n},{error},8,8,{airtime},1\n'
        for n, error in enumerate(errors, 1)
    )


HEADER = "comparison,task,policy,run,round,error,arrivals,transmitting,airtime_s,energy_j\n"
#: The last ten of twelve rounds: 0.2 and 0.4 with pdg, 0.5 and 0.9 with pdm.
FEDERATED = (
    HEADER
    + rounds("noisy, exact", "pdg", 0, [0.9, 0.5] + [0.2] * 10, 2)
    + rounds("noisy, exact", "pdg", 1, [0.9, 0.6] + [0.4] * 10, 3)
    + rounds("noisy, exact", "pdm", 0, [0.9, 0.9] + [0.5] * 10, 10)
    + rounds("noisy, exact", "pdm", 1, [0.9, 0.9] + [0.9] * 10, 10)
)
MORE = HEADER + rounds("another", "pdg", 0, [0.6] * 12, 1)


@pytest.fixture
def results(tmp_path: Path) -> Path:
    (tmp_path / "sweep.csv").write_text(SWEEP)
    (tmp_path / "fed.csv").write_text(FEDERATED)
    (tmp_path / "more.csv").write_text(MORE)
    return tmp_path


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ("mean(objective){policy=pdg}", 0.7),
        ("mean(objective){policy=pdg, Pmax (dBW)=-40}", 0.6),
        ("mean(objective){Pmax (dBW)=0}", 0.625),
        ("median(objective){policy=pdg}", 0.7),
        ("min(objective)", 0.25),
        ("max(objective){policy=pdm|nobody}", 0.35),
        (r"count(objective){policy=pdm\|pdg}", 5),
        ("count(weighted_per)", 4),
        ("mean(feasible)", 0.75),
        ("count(feasible){feasible=True}", 3),
        ("std(objective){policy=pdm}", 0.1 / math.sqrt(2)),
        ("sem(objective){policy=pdm}", 0.05),
        ("100 * mean(weighted_per){policy=pdg}", 15),
        ("mean(objective){policy=pdg} - mean(objective){policy=pdm}", 0.4),
        ("100 - 100 * mean(objective){policy=pdg} / 2", 65),
        ("10 * (max(objective) - min(objective))", 6.5),
        ("mean(objective{policy=pdm} - objective{policy=pdg, Pmax (dBW)=-40})", -0.3),
        ("1 - 0.5 - 0.25", 0.25),
        ("8 / 2 / 2", 2),
    ],
)
def test_columns(results: Path, source: str, value: float):
    assert value_of(f"sweep.csv: {source}", results) == pytest.approx(value)


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ("final(error){policy=pdg}", 0.3),
        ('final(error){comparison="noisy, exact", policy=pdm}', 0.7),
        ("min(final(error)){policy=pdg}", 0.2),
        ("sem(final(error)){policy=pdg}", 0.1),
        ("sem(final(error){policy=pdg} - final(error){policy=pdm})", 0.1),
        ("mean(final(error){policy=pdg} - final(error){policy=pdm})", -0.4),
        # At rounds 2 and 3: 4 s and 9 s.
        ("cost(airtime_s, 0.5){policy=pdg}", 6.5),
        ("cost(rounds, 0.5){policy=pdg}", 2.5),
        ("max(cost(airtime_s, 0.5)){policy=pdg}", 9),
        # One of two runs gets there.
        ("cost(airtime_s, 0.5){policy=pdm}", math.inf),
        ("median(airtime_s){policy=pdg}", 2.5),
    ],
)
def test_runs(results: Path, source: str, value: float):
    assert value_of(f"fed.csv: {source}", results) == pytest.approx(value)


def test_several_files(results: Path):
    assert value_of("fed.csv, more.csv: final(error){policy=pdg}", results) == pytest.approx(0.4)


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("none.csv: mean(objective)", "there is no file none.csv"),
        ("sweep.csv", "no colon after the file"),
        ("sweep.csv: mean(price)", "there is no column 'price'"),
        ("sweep.csv: mean(objective){seed=1}", "there is no column 'seed'"),
        ("sweep.csv: mean(objective){policy=max}", "no row is left by the filters"),
        ("sweep.csv: mean(weighted_per){policy=pdg, Pmax (dBW)=0}", "'weighted_per' is empty"),
        ("sweep.csv: mean(policy)", "'policy' holds no numbers"),
        ("sweep.csv: mode(objective)", "there is no function 'mode'"),
        ("sweep.csv: final(objective)", "no columns run and round"),
        ("sweep.csv: sem(objective){policy=pdg, run=1}", "needs two values"),
        ("sweep.csv: mean(objective", r"\) is missing before 'the end'"),
        ("sweep.csv: mean(objective) 2", "cannot read '2'"),
        ("sweep.csv: mean(objective){policy}", "cannot read the filter 'policy'"),
        ("sweep.csv: objective", "there is no function 'objective'"),
        ("sweep.csv: __import__('os')", "cannot read"),
        ("fed.csv: mean(final(error){policy=pdg} - final(error){policy=pdg, run=0})", "2 values"),
    ],
)
def test_what_cannot_be_computed_says_why(results: Path, source: str, why: str):
    with pytest.raises(SourceError, match=why):
        value_of(source, results)
