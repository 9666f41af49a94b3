from __future__ import annotations

import torch

from feduplink import Scenario, draw_csi
from feduplink.channels import draw_splits
from feduplink.randomness import torch_generator


def test_splits_come_from_streams_of_their_own():
    scenario = Scenario(workers=3)
    splits = draw_splits(scenario, 20, seed=6)
    expected = draw_csi(scenario, 20, torch_generator(6, "validation-channels"))
    torch.testing.assert_close(splits.validation, expected, rtol=0, atol=0)
    assert splits.training.shape == splits.test.shape == (20, 3, 3)
    assert not torch.equal(splits.training, splits.test)
