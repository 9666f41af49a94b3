from __future__ import annotations

import numpy as np
import pytest
import torch

from feduplink import InputError
from feduplink.channels import (
    check_csi,
    denoised_csi,
    matched_filter_csi,
    noisy_csi,
    rayleigh,
    scale_interference,
)


def naive_csi(channel: np.ndarray, serving: np.ndarray, noise: float) -> np.ndarray:
    """H of complex channels (N, L, K, n_R), entry by entry from its definition."""
    count, workers = serving.shape
    csi = np.empty((count, workers, workers))
    for n, i, j in np.ndindex(csi.shape):
        station = serving[n, i]
        own, other = channel[n, i, station], channel[n, j, station]
        if i == j:
            csi[n, i, j] = np.linalg.norm(own) ** 2 / noise
        else:
            product = np.abs(np.vdot(own, other)) ** 2
            csi[n, i, j] = product / (noise * np.linalg.norm(own) ** 2)
    return csi


@pytest.mark.parametrize("antennas", [1, 4])
@pytest.mark.parametrize("stations", [1, 3])
def test_matched_filter_csi_agrees_with_its_definition(stations, antennas, generator):
    fading = rayleigh((6, 5, stations, antennas), generator).double()
    gain = torch.rand(6, 5, stations, generator=generator, dtype=torch.float64) + 0.01
    serving = gain.argmax(-1)

    csi = matched_filter_csi(fading, gain, serving, 0.1)

    channel = torch.view_as_complex(fading) * gain.sqrt()[..., None]
    np.testing.assert_allclose(csi, naive_csi(channel.numpy(), serving.numpy(), 0.1), rtol=1e-9)


def test_the_interference_factor_scales_off_diagonal_gains_only(default_csi):
    scaled = scale_interference(default_csi, 4.0)
    ratio = scaled / default_csi
    expected = torch.full((8, 8), 4.0).fill_diagonal_(1.0)
    torch.testing.assert_close(ratio, expected.expand_as(ratio))


def test_csi_noise_has_the_given_variance(generator):
    csi = torch.full((200, 8, 8), 1e6)
    noise = noisy_csi(csi, 25.0, generator) - csi
    assert noise.std().item() == pytest.approx(5, rel=0.05)
    assert noise.mean().item() == pytest.approx(0, abs=0.3)


def test_noisy_csi_is_positive_and_valid(default_csi, generator):
    assert check_csi(noisy_csi(default_csi, 1e12, generator)).min() > 0


def test_without_noise_csi_is_unchanged(default_csi, generator):
    assert torch.equal(noisy_csi(default_csi, 0.0, generator), default_csi)


@pytest.mark.parametrize(
    ("csi", "sentence"),
    [
        (torch.ones(2, 3), r"^csi: shape \(2, 3\) is not square"),
        (torch.ones(3), r"^csi: shape \(3,\) is not square"),
        (torch.ones(4, 0, 0), r"^csi: shape \(4, 0, 0\) .* L >= 1"),
        (
            torch.ones(2, 2, dtype=torch.int64),
            r"^csi: .*; accepted: a tensor of float32 or float64",
        ),
        (
            torch.ones(2, 2, dtype=torch.complex64),
            r"^csi: .*; accepted: a tensor of float32 or float64",
        ),
        ([[1.0]], r"^csi: .*; accepted: a tensor of float32 or float64"),
        (torch.tensor([[1.0, torch.nan], [1.0, 1.0]]), r"^csi: contains NaN or infinity"),
        (torch.tensor([[1.0, torch.inf], [1.0, 1.0]]), r"^csi: contains NaN or infinity"),
        (torch.tensor([[1.0, -1.0], [1.0, 1.0]]), r"^csi: contains a negative or zero gain"),
        (torch.tensor([[1.0, 0.0], [1.0, 1.0]]), r"^csi: contains a negative or zero gain"),
    ],
)
def test_invalid_csi_is_refused(csi, sentence):
    with pytest.raises(InputError, match=sentence):
        check_csi(csi)


def test_denoised_csi_is_the_posterior_mean():
    gains = torch.linspace(0, 100, 200_001, dtype=torch.float64)
    for observed in (-2.0, 0.001, 1.0, 5.0, 40.0):
        likelihood = torch.exp(-((gains - observed) ** 2) / (2 * 4.0))
        expected = (gains * likelihood).sum() / likelihood.sum()
        estimate = denoised_csi(torch.tensor(observed, dtype=torch.float64), 4.0)
        torch.testing.assert_close(estimate, expected, rtol=1e-3, atol=1e-3)


def test_denoising_without_noise_changes_nothing():
    csi = torch.rand(2, 3, 3) + 1
    assert torch.equal(denoised_csi(csi, 0.0), csi)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_gains_in_16_bits_are_refused(dtype: torch.dtype):
    """Powers in 16 bits exceed Pmax by rounding."""
    with pytest.raises(InputError, match="accepted: a tensor of float32 or float64"):
        check_csi(torch.ones(2, 3, 3, dtype=dtype))


@pytest.mark.parametrize("gain", [1e-39, 1e39])
def test_gains_beyond_32_bits_are_refused(gain: float):
    """Policies compute in 32 bits."""
    csi = torch.ones(2, 3, 3, dtype=torch.float64)
    csi[1, 2, 0] = gain
    with pytest.raises(
        InputError, match=r"accepted: 1\.18e-38 to 3\.4e\+38, the range of float32\.$"
    ):
        check_csi(csi)
