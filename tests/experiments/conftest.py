from __future__ import annotations

from pathlib import Path

import pytest

from feduplink.experiments.experiment_context import ExperimentContext

from .tiny import TINY, limit_settings


@pytest.fixture(scope="session")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the tests share what takes time to make."""
    return tmp_path_factory.mktemp("experiments")


@pytest.fixture(scope="session")
def context(kept: Path) -> ExperimentContext:
    """Tiny, and without data sets."""
    return ExperimentContext(kept / "kept", TINY, data=kept / "no-data")


@pytest.fixture
def few_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    limit_settings(monkeypatch)
