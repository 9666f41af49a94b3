from __future__ import annotations

from pathlib import Path

import pytest
import torch

from feduplink import InputError, Scenario, draw_csi, write_channels
from feduplink.channels import Channels, Realisations, make_channels
from feduplink.randomness import torch_generator


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    """Ten channels of three workers."""
    csi = draw_csi(Scenario(workers=3), 10, torch.Generator().manual_seed(2))
    write_channels(tmp_path / "measured.h5", Realisations(csi))
    return tmp_path / "measured.h5"


def test_drawn_parts_are_those_of_the_seed():
    scenario = Scenario(workers=3)
    source, splits = (
        Channels.from_scenario(scenario, 6, seed=4),
        make_channels(scenario, 6, seed=4),
    )
    for part in ("training", "validation", "test"):
        assert torch.equal(getattr(source, part), getattr(splits, part))
    assert not source.recorded
    assert source.notes == []
    assert source.as_metrics() == {"source": "drawn from the scenario", "count": 6}


@pytest.mark.parametrize("geometry", ["redrawn", "kept"])
def test_fresh_channels_are_of_the_same_cell(geometry):
    scenario = Scenario(workers=3, geometry=geometry)
    source = Channels.from_scenario(scenario, 6, seed=4)
    fresh = source.fresh(5, torch.Generator().manual_seed(9))
    cell = torch_generator(4, "cell")
    expected = draw_csi(scenario, 5, torch.Generator().manual_seed(9), cell=cell)
    assert torch.equal(fresh, expected)


def test_a_recording_says_how_it_was_split(recording: Path):
    source = Channels.from_file(recording)
    assert source.recorded
    assert torch.equal(
        source.csi, draw_csi(Scenario(workers=3), 10, torch.Generator().manual_seed(2))
    )
    assert source.as_metrics() == {
        "source": f"from {recording}",
        "count": 3,
        "parts": {"training": 4, "validation": 3, "test": 3},
    }
    assert source.notes == [
        f"the 10 channels from {recording} are split in turns: 4 to train and tune on, 3 for "
        "validation, 3 for the test"
    ]
    assert source.headline(source.test) == f"3 of the 10 channels from {recording}"


def test_there_are_no_others_than_the_recorded_channels(recording: Path):
    source = Channels.from_file(recording)
    with pytest.raises(InputError, match=r"^fresh channels: those from .*measured.h5 are recorded"):
        source.fresh(1, torch.Generator())
