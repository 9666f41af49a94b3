from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

from feduplink import Scenario, draw_csi, save_policy
from feduplink.policies import shipped_pdx

#: An app in Flower's layout, for tests in this process and for Flower's own.
FOUR_STRATEGIES = Path(__file__).parent / "four_strategies"
sys.path.insert(0, str(FOUR_STRATEGIES))


@pytest.fixture(scope="session")
def scenario() -> Scenario:
    """Four workers that cannot all be heard in every round."""
    return Scenario(workers=4, waterfall=0.4)


@pytest.fixture(scope="session")
def saved_pdx(scenario: Scenario, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``pdx`` for the scenario, as ``feduplink`` saves it; tuned on few channels, which is fast."""
    csi = draw_csi(scenario, 40, torch.Generator().manual_seed(2))
    directory = tmp_path_factory.mktemp("pdx")
    save_policy(shipped_pdx(scenario, csi), directory)
    return directory
