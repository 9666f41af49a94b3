from __future__ import annotations

from pathlib import Path

import pytest
import torch

from feduplink import Scenario, draw_csi, save_policy
from feduplink.comparison import find_policies
from feduplink.policies import Deployment

WORKERS = 4


@pytest.fixture(scope="session")
def scenario() -> Scenario:
    """Four workers that cannot all be heard in every round."""
    return Scenario(workers=WORKERS, waterfall=0.4)


@pytest.fixture(scope="session")
def saved_pdx(scenario: Scenario, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``pdx`` for the scenario, as ``feduplink`` saves it; tuned on few channels, which is fast."""
    csi = draw_csi(scenario, 40, torch.Generator().manual_seed(2))
    (policy,) = find_policies(["pdx"], Deployment(scenario, csi)).values()
    directory = tmp_path_factory.mktemp("pdx")
    save_policy(policy, directory)
    return directory
