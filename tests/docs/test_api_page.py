"""docs/reference/python.md: its blocks run in order in an empty directory."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import torch

from .markdown import ROOT

BLOCKS = re.findall(
    r"^```python\n(.*?)^```$", (ROOT / "docs/reference/python.md").read_text("utf-8"), re.S | re.M
)


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the blocks leave behind."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("api"))
        found: dict[str, Any] = {"__name__": "api_page"}
        for number, block in enumerate(BLOCKS, 1):
            exec(compile(block, f"python.md, block {number}", "exec"), found)
        return found


def test_a_result_is_read_back_as_it_was(names: dict[str, Any]):
    assert str(names["result"]) == str(names["again"])
    assert names["result"].metrics() == names["again"].metrics()
    columns = ["policy", "worker", "measure", "value"]
    assert list(names["frame"].columns) == columns
    assert list(names["result"]) == ["max", "openloop", "tdma", "pdx", "half_power"]


def test_powers_have_the_type_and_shape_of_the_channels(names: dict[str, Any]):
    pdx, test = names["pdx"], names["channels"].test
    assert names["one"].shape == (8,)
    array = pdx.allocate(test.numpy())
    assert isinstance(array, np.ndarray)
    torch.testing.assert_close(torch.from_numpy(array), names["power"])
    torch.testing.assert_close(pdx(test).detach(), names["power"], rtol=1e-5, atol=1e-12)
    assert torch.equal(names["powers"], pdx.allocate(test[9]))


def test_a_run_is_continued_and_its_policy_loaded(names: dict[str, Any]):
    assert names["loaded"].name == "pdg"
    assert len(names["run"].history.to_dataframe()) == 3
    assert len(names["longer"].history.to_dataframe()) == 5


def test_the_share_of_rounds_of_every_worker_is_kept(names: dict[str, Any]):
    history = names["history"]
    assert history["ideal"].delivered.tolist() == [1.0] * 8
    counts = [run.arrivals for run in history["pdx"]]
    assert history["pdx"].delivered.mean() == pytest.approx(np.mean(counts) / 8)
    assert len(names["sweep"].to_dataframe()) > 0


def test_the_physics_has_gradients(names: dict[str, Any]):
    assert names["p"].grad.shape == (300, 8)
    assert bool(names["p"].grad.isfinite().all())
    state = names["state"]
    assert state.energy_j.shape == state.airtime_s.shape == (300, 8)
    assert state.upload.duration_s.shape == (300,)
