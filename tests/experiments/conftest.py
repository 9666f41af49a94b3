from __future__ import annotations

from pathlib import Path

import pytest

from feduplink.experiments.context import ExperimentContext

from .tiny import TINY


@pytest.fixture(scope="session")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Cache that the tests share."""
    return tmp_path_factory.mktemp("experiments")


@pytest.fixture(scope="session")
def context(kept: Path) -> ExperimentContext:
    """Tiny, and without data sets."""
    return ExperimentContext(kept / "kept", TINY, data=kept / "no-data")
