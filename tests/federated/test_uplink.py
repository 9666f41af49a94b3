from __future__ import annotations

import pytest
import torch

from feduplink import InputError, Scenario
from feduplink.federated.uplink.rounds import Rounds, everyone, presence, recorded_rounds


def test_presence_from_changes():
    schedule = presence(5, 3, {1: {0}, 3: {1, 2}})
    assert schedule.int().tolist() == [[1, 1, 1], [1, 0, 0], [1, 0, 0], [0, 1, 1], [0, 1, 1]]


def test_kept_workers_keep_their_channels_and_runs_differ():
    kept = Scenario(workers=3, geometry="kept", coherence_time_s=1e6)
    drawn = Rounds.draw(kept, everyone(5, 3), seed=0, run=0)
    torch.testing.assert_close(drawn.csi[0], drawn.csi[-1], rtol=0.05, atol=0)
    again = Rounds.draw(kept, everyone(5, 3), seed=0, run=0)
    other = Rounds.draw(kept, everyone(5, 3), seed=0, run=1)
    assert drawn.csi.equal(again.csi)
    assert not drawn.csi.equal(other.csi)
    assert not drawn.uniform.equal(other.uniform)


def test_noise_is_in_what_the_policy_sees_not_in_the_outcome():
    drawn = Rounds.draw(Scenario(workers=3, csi_noise=1.0), everyone(5, 3), seed=0, run=0)
    clean = Rounds.draw(Scenario(workers=3), everyone(5, 3), seed=0, run=0)
    assert drawn.csi.equal(clean.csi)
    assert not drawn.observed.equal(drawn.csi)
    assert clean.observed.equal(clean.csi)


def test_bits_of_a_model():
    assert Scenario().model_bits(39_760) == 32 * 39_760 + 32
    own = Scenario(workers=2, bits_per_weight=(8, 16))
    assert own.model_bits(100).tolist() == [832, 1632]


def test_recorded_channels_are_the_rounds_of_run_after_run():
    recorded = torch.arange(1.0, 8.0)[:, None, None].expand(7, 2, 2)
    present = everyone(3, 2)
    for run, expected in ((0, [1, 2, 3]), (1, [4, 5, 6])):
        found = Rounds.draw(Scenario(workers=2), present, seed=0, run=run, recorded=recorded)
        assert found.csi[:, 0, 0].tolist() == expected
        drawn = Rounds.draw(Scenario(workers=2), present, seed=0, run=run)
        assert torch.equal(found.uniform, drawn.uniform)


def test_recorded_channels_that_are_too_few_or_of_others_are_refused():
    csi = torch.ones(4, 2, 2)
    assert recorded_rounds(csi, 3, 2).shape == (3, 2, 2)
    with pytest.raises(InputError, match="channels: 4 recorded for 5 rounds"):
        recorded_rounds(csi, 5, 2)
    with pytest.raises(InputError, match="2 workers; accepted here: exactly 3"):
        recorded_rounds(csi, 3, 3)
