from __future__ import annotations

import pytest
import torch

from feduplink import PerceptronPolicy, Scenario


@pytest.mark.parametrize("pmax_dbw", [-40, 0])
def test_is_the_papers_network(pmax_dbw, default_csi):
    policy = PerceptronPolicy.initialised(Scenario(pmax_dbw=pmax_dbw))
    weights = [w for w in policy.parameters() if w.ndim == 2]
    assert [tuple(w.shape) for w in weights] == [
        (128, 65),
        (256, 128),
        (64, 256),
        (16, 64),
        (8, 16),
        (8, 8),
    ]

    biases = [b for b in policy.parameters() if b.ndim == 1]
    values = torch.cat((default_csi.log10().flatten(1), torch.full((100, 1), pmax_dbw / 10)), 1)
    for weight, bias in zip(weights[:-1], biases[:-1], strict=True):
        values = values @ weight.T + bias
        values = torch.where(values > 0, values, 0.01 * values)
    logits = values @ weights[-1].T + biases[-1]
    expected = 10 ** (pmax_dbw / 10) / (1 + torch.exp(-logits))

    torch.testing.assert_close(policy.allocate(default_csi), expected.detach())
