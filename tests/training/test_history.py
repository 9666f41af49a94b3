from __future__ import annotations

import json
import math
import sys

import pytest
import torch

from feduplink import InputError, Scenario, judge
from feduplink.storage.tensorfile import TensorFile, pack, unpack
from feduplink.training import Epoch, History, NetworkEpoch, best_epoch


def epoch(number: int, objective: float, violation: float) -> Epoch:
    return Epoch(
        number=number,
        objective=objective,
        participation=1.0,
        violation=violation,
        feasible=violation <= 0.01,
        constraints={"rate": (0.7, float("inf")), "energy_efficiency": (55.0, 60.0)},
        worst={"rate_min": 0.7, "energy_efficiency_min": 55.0},
    )


@pytest.mark.parametrize(
    ("history", "best"),
    [
        # The highest objective among the epochs that meet every constraint ...
        ([(0.8, 0.0), (0.9, 0.0), (0.85, 0.0)], 1),
        # ... however good one is that does not, even within the judge's tolerance ...
        ([(0.8, 0.0), (0.99, 0.005), (0.999, 0.5)], 0),
        # ... the least violation if none does ...
        ([(0.9, 0.3), (0.1, 0.1), (0.8, 0.2)], 1),
        # ... and the first of equals.
        ([(0.7, 0.1), (0.9, 0.0), (0.9, 0.0)], 1),
    ],
)
def test_best_epoch_is_feasible_with_the_highest_objective(history, best):
    epochs = [epoch(n, *figures) for n, figures in enumerate(history)]
    assert best_epoch(epochs).number == best


@pytest.mark.parametrize("record", [epoch(3, 0.9, 0.0), NetworkEpoch(2, 300, {"cost": 0.1})])
def test_epoch_record_is_saved_and_restored(record):
    stored = pack(History([record]))
    header = json.loads(json.dumps(stored.header))
    assert unpack(TensorFile({}, header), [type(record)]) == [record]


def test_epoch_has_the_values_of_its_judgement():
    """Two workers that hear nothing of each other; the second is silent."""
    scenario = Scenario(
        workers=2, rate_min=0.5, ee_min=0, constraints="link.own_measures:AveragePower <= 0.004"
    )
    csi = torch.tensor([[[100.0, 1e-9], [1e-9, 100.0]]]).repeat(2, 1, 1)
    power = torch.tensor([[0.01, 0.0], [0.0, 0.0]])
    verdict = judge(scenario, csi, power)
    epoch = Epoch.from_judgement(7, verdict)
    assert (epoch.number, epoch.objective) == (7, verdict.objective)
    assert epoch.participation == 0.25
    assert epoch.violation == pytest.approx(0.25)
    assert not epoch.meets_constraints
    assert epoch.constraints["power"] == pytest.approx((0.005, 0.0))
    assert epoch.constraints["rate"][0] == pytest.approx(math.log(2), rel=1e-6)
    assert math.isnan(epoch.constraints["rate"][1])
    assert epoch.worst["power_max"] == pytest.approx(0.005)
    assert epoch.worst["rate_min"] == pytest.approx(math.log(2), rel=1e-6)


def test_a_data_frame_has_a_row_per_epoch():
    pandas = pytest.importorskip("pandas")
    frame = History([epoch(0, 0.5, 0.1), epoch(1, 0.75, 0.0)]).to_dataframe()
    assert isinstance(frame, pandas.DataFrame)
    assert frame["epoch"].tolist() == [1, 2]
    assert frame["objective"].tolist() == [0.5, 0.75]
    assert frame["feasible"].tolist() == [False, True]
    assert frame["rate_2"].tolist() == [float("inf")] * 2
    steps = History([NetworkEpoch(0, 100, {"Lagrangian": 0.5})]).to_dataframe()
    assert steps.to_dict("records") == [{"steps": 100, "Lagrangian": 0.5}]


def test_missing_pandas_is_refused_with_the_install_command(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(InputError, match="pandas is not installed; accepted after pip install"):
        History([epoch(0, 0.5, 0.1)]).to_dataframe()


def test_the_last_epoch_of_a_network_without_validation_is_the_best():
    history = History(NetworkEpoch(n, 100 * n, {"cost": n % 2}) for n in range(3))
    assert history.best.number == 2
