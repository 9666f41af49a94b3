from __future__ import annotations

import pytest

from feduplink.federated.lanes import side_by_side


@pytest.mark.parametrize("at_once", [1, 2, 3, 4, 7, 8, 100])
def test_every_lane_trains_exactly_once(at_once: int):
    policies, runs = 3, 4
    seen = []
    for chosen, groups in side_by_side(policies, runs, at_once):
        for lanes in groups:
            indices = list(range(lanes.start, lanes.stop))
            assert len(indices) <= max(at_once, 1)
            assert [lane % runs for lane in indices] == list(chosen) * (len(indices) // len(chosen))
            seen += indices
    assert sorted(seen) == list(range(policies * runs))
