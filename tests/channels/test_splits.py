from __future__ import annotations

import torch
from torch import Tensor

from feduplink import Scenario, draw_csi
from feduplink.channels import draw_splits, draw_training_csi
from feduplink.randomness import torch_generator


def test_splits_come_from_streams_of_their_own():
    scenario = Scenario(workers=3)
    splits = draw_splits(scenario, 20, seed=6)
    expected = draw_csi(scenario, 20, torch_generator(6, "validation-channels"))
    torch.testing.assert_close(splits.validation, expected, rtol=0, atol=0)
    assert splits.training.shape == splits.test.shape == (20, 3, 3)
    assert not torch.equal(splits.training, splits.test)


def test_splits_of_a_kept_geometry_are_of_one_cell():
    """With many antennas the fading of a link averages out, and the path gain is left."""
    scenario = Scenario(workers=3, geometry="kept", antennas=256)
    splits = draw_splits(scenario, 20, seed=6)

    def gains(csi: Tensor) -> Tensor:
        return csi.diagonal(dim1=-2, dim2=-1).mean(0)

    for other in (splits.validation, splits.test, draw_training_csi(scenario, 50, seed=6)):
        torch.testing.assert_close(gains(other), gains(splits.training), rtol=0.1, atol=0)
    assert not torch.equal(splits.test, splits.training)
    elsewhere = draw_splits(scenario, 20, seed=7).training
    assert ((gains(elsewhere) / gains(splits.training)).log().abs() > 0.5).any()
