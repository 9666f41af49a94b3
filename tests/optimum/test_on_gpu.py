"""The search on a GPU: every tensor is where the channels are, and nothing else changes."""

import pytest
import torch
from torch import Tensor

from feduplink import Scenario
from feduplink.channels import make_channels
from feduplink.lagrangian import ChannelBatch, Prices
from feduplink.optimum import Certificate, certify, find_optimum
from simulated_gpu import GPU, simulated_gpu

_SCENARIO = Scenario(workers=2)
_CSI = make_channels(_SCENARIO, 8, seed=0).test


def _certificate(csi: Tensor, measure: int, *, record: bool) -> Certificate:
    """With a price on packet success, rate or energy efficiency, the first, second or third."""
    prices = torch.zeros(4, 2, dtype=torch.float64, device=csi.device)
    prices[measure] = 1.0
    batch = ChannelBatch.from_scenario(_SCENARIO, csi)
    target = (1e-3, 1e-2, 1.0)[measure]
    return certify(batch, Prices(*prices), target_gap=target, record=record)


@pytest.mark.parametrize("measure", [0, 1, 2])
@pytest.mark.parametrize("record", [False, True])
def test_the_same_is_proved_on_a_gpu(measure: int, record: bool):
    expected = _certificate(_CSI[:2], measure, record=record)
    with simulated_gpu():
        found = _certificate(_CSI[:2].to(GPU), measure, record=record).to(torch.device("cpu"))
    torch.testing.assert_close(found.lower, expected.lower)
    torch.testing.assert_close(found.upper, expected.upper)
    torch.testing.assert_close(found.power, expected.power)
    assert (found.tree is not None) == record


@pytest.mark.slow
def test_the_optimum_is_found_on_a_gpu_and_comes_back():
    expected = find_optimum(_SCENARIO, _CSI)
    with simulated_gpu():
        found = find_optimum(_SCENARIO, _CSI, device=GPU)
    assert found.power.device == _CSI.device
    torch.testing.assert_close(found.power, expected.power)
    assert found.upper_bound == pytest.approx(expected.upper_bound, rel=1e-9)


def test_more_channels_launch_hardly_more():
    counted = []
    for count in (1, 8):
        with simulated_gpu() as gpu:
            _certificate(_CSI[:count].to(GPU), 1, record=False)
        counted.append(gpu.launches)
    assert counted[1] < 2 * counted[0]


def test_tensors_of_two_devices_are_refused():
    with simulated_gpu(), pytest.raises(RuntimeError, match="on the CPU and on the GPU"):
        torch.ones(2, device=GPU) + torch.ones(2)
