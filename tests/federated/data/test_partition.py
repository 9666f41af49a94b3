from __future__ import annotations

import numpy as np
import pytest
import torch

from feduplink import InputError, Scenario
from feduplink.federated.data.partition import (
    dirichlet_shares,
    fitted_sizes,
    iid_shares,
    importance_of_noise,
    noise_levels,
    weighed_by_noise,
    with_pixel_noise,
)
from feduplink.scenario import data_sizes

SIZES = np.array([40, 10, 25])


def test_iid_shares_are_disjoint_and_of_the_given_sizes():
    shares = iid_shares(100, SIZES, np.random.default_rng(0))
    assert [len(share) for share in shares] == SIZES.tolist()
    assert len(set(torch.cat(shares).tolist())) == 75


def test_sizes_are_scaled_only_if_their_sum_is_too_large():
    assert fitted_sizes(SIZES, 75).tolist() == SIZES.tolist()
    assert fitted_sizes(SIZES, 50).tolist() == [26, 6, 16]
    with pytest.raises(InputError, match="cannot share 3 examples"):
        fitted_sizes(SIZES, 3)


def test_dirichlet_shares_are_disjoint_skewed_and_at_most_the_sizes():
    labels = torch.arange(10).repeat(400)
    sizes = np.array([300, 100, 200, 50])
    shares = dirichlet_shares(labels, sizes, np.random.default_rng(0))
    assert all(len(share) <= size for share, size in zip(shares, sizes, strict=True))
    rows = torch.cat(shares).tolist()
    assert len(set(rows)) == len(rows)
    counts = torch.stack([labels[share].bincount(minlength=10) for share in shares]).float()
    frequencies = counts / counts.sum(1, keepdim=True)
    assert frequencies.std(1).mean() > 0.05  # i.i.d. shares of this size have about 0.02


def test_a_large_concentration_is_nearly_iid():
    labels = torch.arange(10).repeat(400)
    shares = dirichlet_shares(labels, np.array([500] * 4), np.random.default_rng(0), 1e6)
    for share in shares:
        assert labels[share].bincount(minlength=10).float().std() < 12


def test_too_many_workers_for_labels_are_refused():
    with pytest.raises(InputError, match="by label"):
        dirichlet_shares(torch.zeros(50), np.full(8, 5), np.random.default_rng(0))


def test_noise_and_importance_follow_the_formulas():
    levels = noise_levels(np.array([1000, 500]))
    relative = np.array([1.0, 1 + np.log(2)])
    np.testing.assert_allclose(levels, 500 * relative / relative.sum())
    expected = np.exp(2 - np.array([0, levels[1] - levels[0]]) / 30)
    np.testing.assert_allclose(importance_of_noise(levels), expected)


def test_weights_for_noise_change_the_weights_only():
    scenario = Scenario(workers=3, rate_min=0.4)
    weighed = weighed_by_noise(scenario)
    expected = importance_of_noise(noise_levels(data_sizes(3)))
    np.testing.assert_allclose(weighed.worker_weights, expected)
    assert weighed.replace(weights=scenario.weights) == scenario


def test_pixel_noise_has_the_workers_level_and_leaves_others_alone():
    images = torch.full((300, 400), 128, dtype=torch.uint8)
    shares = (torch.arange(100), torch.arange(100, 200))
    noisy = with_pixel_noise(images, shares, np.array([5.0, 20.0]), np.random.default_rng(0))
    assert noisy[:100].float().std() == pytest.approx(5, rel=0.02)
    assert noisy[100:200].float().std() == pytest.approx(20, rel=0.02)
    assert noisy[200:].eq(128).all()
    assert images.eq(128).all()
