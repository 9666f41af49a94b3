from __future__ import annotations

import pytest
import torch

from feduplink import link
from feduplink.channels import (
    filtered_csi,
    interference_covariance,
    matched_filter_csi,
    mmse_csi,
    mrc_csi,
)


def gains(count: int = 50, workers: int = 5, antennas: int = 4, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    spread = 10 ** (4 * torch.rand(count, workers, 1, generator=generator, dtype=torch.double))
    shape = (count, workers, antennas)
    return spread.sqrt() * torch.randn(shape, dtype=torch.cdouble, generator=generator)


def test_mrc_is_the_matched_filter_of_the_shipped_models():
    h, noise_power_w = gains(), 0.5
    expected = matched_filter_csi(
        torch.view_as_real(h)[:, :, None],
        torch.ones(1, h.shape[1], 1).double(),
        torch.zeros(1, h.shape[1], dtype=torch.long),
        noise_power_w,
    )
    torch.testing.assert_close(mrc_csi(h / noise_power_w**0.5), expected)


@pytest.mark.parametrize("with_others", [False, True])
def test_mmse_has_the_largest_sinr_of_all_filters_at_its_powers(with_others: bool):
    h = gains()
    power = torch.linspace(0.1, 2.0, h.shape[1]).double()
    covariance = interference_covariance(gains(seed=1), power) if with_others else None
    best = link.sinr(mmse_csi(h, power, covariance), power.expand(h.shape[:2]))
    # The known maximum over all filters: p_i h_iᴴ (C + Σ_{j≠i} p_j h_j h_jᴴ)⁻¹ h_i.
    noise = torch.eye(h.shape[-1]).to(h) if covariance is None else covariance
    for i in range(h.shape[1]):
        others = torch.cat((h[:, :i], h[:, i + 1 :]), dim=1)
        other_power = torch.cat((power[:i], power[i + 1 :]))
        disturbance = noise + (others.mT * other_power) @ others.conj()
        whitened = torch.linalg.solve(disturbance, h[:, i, :, None])[..., 0]
        expected = power[i] * (h[:, i].conj() * whitened).sum(-1).real
        torch.testing.assert_close(best[:, i], expected)
    rng = torch.Generator().manual_seed(2)
    near = h + 0.1 * h.abs() * torch.randn(h.shape, dtype=h.dtype, generator=rng)
    for filters in (h, near):
        sinr = link.sinr(filtered_csi(h, filters, covariance), power.expand(h.shape[:2]))
        assert (sinr <= best * (1 + 1e-9)).all()


def test_a_covariance_of_interferers_counts_as_noise():
    """The SINR with H from C is the one with the others as interferers of known power."""
    h, others, power = gains(), gains(workers=3, seed=1), torch.tensor([0.5, 1.0, 2.0]).double()
    csi = mrc_csi(h, interference_covariance(others, power))
    own = torch.full(h.shape[:2], 0.3).double()
    product = (h.conj() @ torch.cat((h, others), dim=1).mT).abs().square()
    norm = h.abs().square().sum(-1)
    received = product * torch.cat((own, power.expand(len(h), 3)), dim=1)[:, None]
    wanted = received.diagonal(dim1=-2, dim2=-1)
    expected = wanted / (norm + received.sum(-1) - wanted)
    torch.testing.assert_close(link.sinr(csi, own), expected)
