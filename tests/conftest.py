from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import settings
from torch import Tensor

from chromium import launched_browser
from feduplink import Scenario, draw_csi
from feduplink.registry import Registry

MakeRun = Callable[..., Path]
Register = Callable[[Registry[Any], str, Any], None]

#: Read once: some tests hide it from the code.
DATA = os.environ.get("FEDUPLINK_DATA")

# Small tensors: a second thread costs more than it gains, also when tests run in parallel.
if "OMP_NUM_THREADS" not in os.environ:
    torch.set_num_threads(1)

# No deadline: how long an example takes says more about the machine than about the code.
settings.register_profile("feduplink", deadline=None)
settings.load_profile("feduplink")


#: Long tests that coverage's tracing makes a half longer, while others run most of the same code.
NOT_TRACED = (
    "training/test_unrolled.py",
    "policies/test_base.py",
    "reporting/test_comparison.py",
    "reporting/test_federated.py",
)


def pytest_configure(config: pytest.Config) -> None:
    """Multipliers that a test found are kept for the others, and nothing of the user's is used."""
    if not hasattr(config, "workerinput"):  # the process that starts the others
        directory = tempfile.mkdtemp(prefix="feduplink-cache-")
        os.environ["FEDUPLINK_CACHE"] = directory
        config.add_cleanup(lambda: shutil.rmtree(directory, ignore_errors=True))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.as_posix().endswith(NOT_TRACED):
            item.add_marker(pytest.mark.no_cover)


@pytest.fixture(autouse=True)
def _same_numbers_in_every_run() -> None:
    """For tests that draw from torch's global generator, and initial weights of modules."""
    torch.manual_seed(0)


@pytest.fixture
def generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)


@pytest.fixture(scope="session")
def default_scenario() -> Scenario:
    return Scenario()


@pytest.fixture(scope="session")
def default_csi(default_scenario: Scenario) -> Tensor:
    """A hundred channels of the default scenario, (100, 8, 8)."""
    return draw_csi(default_scenario, 100, torch.Generator().manual_seed(1))


@pytest.fixture(scope="module")  # no longer: Playwright's event loop gets in the way of others
def browser() -> Iterator[Any]:
    yield from launched_browser()


@pytest.fixture
def register() -> Iterator[Register]:
    """Registers an item under a name, until the test ends."""
    with contextlib.ExitStack() as names:

        def register(registry: Registry[Any], name: str, item: Any) -> None:
            registry.register(name, item)
            names.callback(registry.unregister, name)

        yield register


@pytest.fixture
def make_run(tmp_path: Path) -> MakeRun:
    """Makes the directory of a run: ``metrics.json``, and figures by name."""
    from feduplink.reporting.style import figure, save_figure
    from feduplink.storage.run_directory import write_metrics

    def make(name: str, *figures: str, **content: Any) -> Path:
        directory = tmp_path / name
        write_metrics(directory, {"seed": 3, **content})
        for title in figures:
            with figure(4, 2, f"What {title} shows") as drawing:
                drawing.subplots().plot([0, 1], color="#0072B2", label="pdg")
            save_figure(directory / f"{title}.png", drawing)
        return directory

    return make


@pytest.fixture
def real_data() -> Path:
    """The directory of the full data sets; tests that need it are skipped without."""
    if not DATA:
        pytest.skip("FEDUPLINK_DATA is not set")
    return Path(DATA)
