"""Channels with given training and validation splits."""

import torch
from torch import Tensor

from feduplink import Scenario
from feduplink.channels import Channels


def split_channels(
    training: Tensor, validation: Tensor, scenario: Scenario | None = None
) -> Channels:
    """Both splits (N, L, L), no test channels; a ``scenario`` draws further ones."""
    count, end = len(training), len(training) + len(validation)
    rows = {
        "training": torch.arange(count),
        "validation": torch.arange(count, end),
        "test": torch.arange(0),
    }
    return Channels(torch.cat((training, validation)), rows, "of a test", scenario)
