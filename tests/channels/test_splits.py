from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from feduplink import InputError, Scenario, draw_csi
from feduplink.channels import Channels, draw_training_csi, make_channels, resample_csi
from feduplink.randomness import torch_generator


def test_splits_come_from_streams_of_their_own():
    scenario = Scenario(workers=3)
    splits = make_channels(scenario, 20, seed=6)
    expected = draw_csi(scenario, 20, torch_generator(6, "validation-channels"))
    torch.testing.assert_close(splits.validation, expected, rtol=0, atol=0)
    assert splits.training.shape == splits.test.shape == (20, 3, 3)
    assert not torch.equal(splits.training, splits.test)


def test_splits_of_a_kept_geometry_are_of_one_cell():
    """With many antennas the fading of a link averages out, and the path gain is left."""
    scenario = Scenario(workers=3, geometry="kept", antennas=256)
    splits = make_channels(scenario, 20, seed=6)

    def gains(csi: Tensor) -> Tensor:
        return csi.diagonal(dim1=-2, dim2=-1).mean(0)

    further = draw_training_csi(scenario, 50, seed=6, block=1)
    assert not torch.equal(further[:20], splits.training)
    for other in (splits.validation, splits.test, further):
        torch.testing.assert_close(gains(other), gains(splits.training), rtol=0.1, atol=0)
    assert not torch.equal(splits.test, splits.training)
    elsewhere = make_channels(scenario, 20, seed=7).training
    assert ((gains(elsewhere) / gains(splits.training)).log().abs() > 0.5).any()


def numbered(count: int) -> Tensor:
    """Channels of one worker that tell their place."""
    return torch.arange(1.0, count + 1)[:, None, None]


@given(st.integers(3, 200))
def test_parts_of_a_recording_are_disjoint_cover_it_and_are_of_one_size(count: int):
    csi = numbered(count)
    splits = Channels.from_csi(csi)
    parts = (splits.training, splits.validation, splits.test)
    assert sorted(torch.cat(parts).flatten().tolist()) == csi.flatten().tolist()
    assert max(map(len, parts)) - min(map(len, parts)) <= 1
    for part in parts:  # the whole recording, in its order
        assert (part.diff(dim=0) == 3).all()


def test_the_third_of_every_three_recorded_channels_is_for_the_test():
    splits = Channels.from_csi(numbered(7))
    assert splits.training.flatten().tolist() == [1, 4, 7]
    assert splits.validation.flatten().tolist() == [2, 5]
    assert splits.test.flatten().tolist() == [3, 6]


@pytest.mark.parametrize("count", [1, 2])
def test_too_few_channels_for_three_parts_are_refused(count: int):
    with pytest.raises(InputError, match=rf"^channels: {count} recorded; accepted: 3 or more"):
        Channels.from_csi(numbered(count))


def test_resampled_channels_are_drawn_evenly_and_the_seed_decides():
    drawn = resample_csi(numbered(4), 4000, seed=1)
    assert torch.equal(drawn, resample_csi(numbered(4), 4000, seed=1))
    assert not torch.equal(drawn, resample_csi(numbered(4), 4000, seed=2))
    shares = drawn.flatten().long().bincount(minlength=5)[1:] / 4000
    torch.testing.assert_close(shares, torch.full((4,), 0.25), rtol=0, atol=0.03)
