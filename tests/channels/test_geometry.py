from __future__ import annotations

import pytest
import torch

from feduplink.channels import base_station_positions, distances, walk, worker_positions


@pytest.mark.parametrize(
    ("count", "positions"),
    [
        (1, [(0, 0)]),
        (2, [(-250, 0), (250, 0)]),
        (4, [(-250, -250), (250, -250), (-250, 250), (250, 250)]),
    ],
)
def test_base_stations_are_spread_evenly(count, positions):
    assert base_station_positions(count, 1000.0).tolist() == [list(p) for p in positions]


def test_workers_are_uniform_in_the_square(generator):
    positions = worker_positions(2000, 8, 1000.0, generator).flatten(0, 1)
    assert positions.abs().max() <= 500
    torch.testing.assert_close(positions.mean(0), torch.zeros(2), atol=10, rtol=0)
    # The deviation of a uniform variable is its width over the root of 12.
    torch.testing.assert_close(positions.std(0), torch.full((2,), 288.7), atol=5, rtol=0)


def test_distance_to_every_station():
    workers = torch.tensor([[[3.0, 4.0], [0.0, 0.0]]])
    stations = torch.tensor([[0.0, 0.0], [3.0, 0.0]])
    assert distances(workers, stations).tolist() == [[[5.0, 4.0], [0.0, 3.0]]]


def test_walk_starts_where_the_worker_stands_and_stays_in_the_cell(generator):
    start = torch.tensor([[0.0, 0.0], [49.0, -49.0]])
    path = walk(start, 2000, 7.0, 100.0, generator)
    torch.testing.assert_close(path[0], start)
    assert path.abs().max() <= 50
    steps = (path[1:] - path[:-1]).norm(dim=-1)
    assert steps.max() <= 7.001
    # Only steps that bounce off the border are shorter.
    inside = (path[:-1].abs() < 43).all(-1)
    torch.testing.assert_close(
        steps[inside], torch.full_like(steps[inside], 7.0), rtol=1e-3, atol=0
    )
    assert path[:, 0].min() < -40 < 40 < path[:, 0].max()
