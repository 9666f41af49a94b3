"""``tb-success`` in commands and federations, and what happens where Sionna is not installed."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import torch

from feduplink import FullPower, Scenario
from feduplink.cli import main
from feduplink.federated.uplink.access import transmit
from feduplink.federated.uplink.rounds import Rounds, UplinkRules, everyone
from feduplink.link import PacketSuccess
from feduplink.link.bler import TransportBlockSuccess


class Mcs3(TransportBlockSuccess):
    """The most robust scheme with a table."""

    name = "tb-success-mcs3"
    mcs = 3


def federated(scenario: Scenario):
    """20 rounds of full power: the SINRs, and how likely uploads arrive."""
    rounds = Rounds.draw(scenario, everyone(20, scenario.workers), seed=1, run=0)
    rules = UplinkRules(scenario, torch.tensor(1e6, dtype=torch.float64))
    csi = rounds.csi.double()
    power = scenario.pmax_w.expand(20, scenario.workers)
    cross = csi - torch.diag_embed(csi.diagonal(dim1=-2, dim2=-1))
    sinr = csi.diagonal(dim1=-2, dim2=-1) * power / (1 + (cross @ power[..., None])[..., 0])
    return sinr, transmit(FullPower(scenario), rounds, rules)


@pytest.mark.parametrize("objective", ["tb-success", f"{__name__}:Mcs3"])
def test_as_the_objective_it_decides_which_uploads_arrive(objective):
    pytest.importorskip("sionna.sys")
    kind = Mcs3 if "Mcs3" in objective else TransportBlockSuccess
    scenario = Scenario(objective=objective)
    sinr, record = federated(scenario)
    expected = kind.from_scenario(scenario).value(sinr, sinr)
    torch.testing.assert_close(record.success, expected, rtol=1e-4, atol=1e-6)
    assert 0.05 < float(expected.mean()) < 0.95


@pytest.mark.parametrize("changes", [{}, {"objective": "rate"}])
def test_otherwise_the_waterfall_does(changes):
    scenario = Scenario(**changes)
    sinr, record = federated(scenario)
    expected = PacketSuccess.from_scenario(scenario).value(sinr, sinr)
    torch.testing.assert_close(record.success, expected, rtol=1e-4, atol=1e-6)


def test_a_comparison_and_a_training(tmp_path: Path):
    pytest.importorskip("sionna.sys")
    common = ["--objective", "tb-success", "--channels-per-split", "60"]
    main(["train", "--policy", "pdg", "--epochs", "3", *common, "--out", str(tmp_path / "pdg")])
    trained = str(tmp_path / "pdg")
    policies = f"rand,orth,max,openloop,{trained}"
    main(["evaluate", "--policies", policies, *common, "--out", str(tmp_path / "all")])
    metrics = json.loads((tmp_path / "all" / "metrics.json").read_text())
    assert metrics["scenario"]["objective"] == "tb-success"
    full = next(entry for name, entry in metrics["policies"].items() if name == "max")
    # Everyone sends, so what is lost and what arrives are all there is.
    assert full["objective"] + full["weighted_per"] == pytest.approx(1)


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        (["evaluate", "--policies", "pdx"], "pdx: knows packet success, .*: tb-success."),
        (["optimum"], "certificate: has no bound with tb-success; accepted"),
    ],
)
def test_what_knows_the_waterfall_only_refuses_it(command, sentence, tmp_path, capsys):
    pytest.importorskip("sionna.sys")
    common = ["--objective", "tb-success", "--channels-per-split", "30", "--out", str(tmp_path)]
    assert main([*command, *common]) != 0
    assert re.search(sentence, " ".join(capsys.readouterr().err.split()))
