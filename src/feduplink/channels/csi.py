"""Channel-state information (CSI): matched-filter CSI, CSI noise and validation."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from feduplink.errors import InputError

#: Minimum of estimated gains, 1/W: an SNR of -30 dB at 1 W, negligible at realistic powers.
CSI_FLOOR = 1e-3

#: Range of gains, 1/W: that of float32.
_MIN_GAIN, _MAX_GAIN = (
    torch.finfo(torch.float32).smallest_normal,
    torch.finfo(torch.float32).max,
)
#: Number of gains up to which NumPy computes minimum and maximum three times as fast as PyTorch.
_MAX_NUMPY_GAINS = 4096


def matched_filter_csi(
    fading: Tensor, gain: Tensor, serving: Tensor, noise_power_w: float
) -> Tensor:
    """CSI of a matched-filter receiver.

    H_ii = ‖h_i‖² / σ² and H_ij = |h_iᴴ h_j|² / (σ² ‖h_i‖²), with the channels h to the serving base
    station of worker i.

    Args:
        fading: unit-power fading coefficients, (N, L, K, n_R, 2), real and imaginary part last.
        gain: mean power gains from workers to base stations, (N, L, K) or (1, L, K), linear.
        serving: index of the serving base station of every worker, (N, L) or (1, L).
        noise_power_w: noise power σ², W.

    Returns:
        H, (N, L, L), in 1/W, in the dtype of ``fading``.
    """
    count, workers, stations, antennas, _ = fading.shape
    gain = gain.expand(count, workers, stations) / noise_power_w
    if stations == 1:
        own = fading[:, :, 0]
        gram = _squared_inner_products(own, own)
        own_norm = gram.diagonal(dim1=-2, dim2=-1).sqrt()  # ‖f_i‖²: the diagonal is ‖f_i‖⁴
        return gram / own_norm[..., None] * gain[:, None, :, 0]
    serving = serving.expand(count, workers)
    index = serving[:, :, None, None, None].expand(-1, -1, 1, antennas, 2)
    filters = fading.gather(2, index)[:, :, 0]  # (N, i, n_R, 2), channel of i to its station
    # Channel of every j to the station of every i: (N, i, j, n_R, 2).
    seen = fading.transpose(1, 2).gather(
        1, serving[:, :, None, None, None].expand(-1, -1, workers, antennas, 2)
    )
    seen_gain = gain.transpose(1, 2).gather(1, serving[:, :, None].expand(-1, -1, workers))
    products = _squared_inner_products(filters[:, :, None], seen)[:, :, 0]
    return products / filters.square().sum((-1, -2))[..., None] * seen_gain


def _squared_inner_products(left: Tensor, right: Tensor) -> Tensor:
    """|aᴴ b|² of all pairs of vectors, (..., A, n, 2) and (..., B, n, 2) to (..., A, B)."""
    a_re, a_im = left[..., 0], left[..., 1]
    b = torch.cat((right[..., 0], right[..., 1]), dim=-1).mT
    real = torch.cat((a_re, a_im), dim=-1) @ b
    imaginary = torch.cat((-a_im, a_re), dim=-1) @ b
    return real.square_().add_(imaginary.square_())


def scale_interference(csi: Tensor, factor: float) -> Tensor:
    """Scale the cross gains of H.

    Args:
        csi: H, (..., L, L), in 1/W.
        factor: factor on the off-diagonal elements.

    Returns:
        H, (..., L, L), in 1/W, with unchanged direct gains.
    """
    if factor == 1:
        return csi
    direct = torch.eye(csi.shape[-1], dtype=torch.bool, device=csi.device)
    return torch.where(direct, csi, factor * csi)


def noisy_csi(csi: Tensor, variance: float, generator: torch.Generator) -> Tensor:
    """Add white Gaussian noise to H.

    Args:
        csi: H, (..., L, L), in 1/W.
        variance: variance of the noise, 1/W².
        generator: source of random numbers.

    Returns:
        Noisy CSI, (..., L, L), in 1/W, at least :data:`CSI_FLOOR`.
    """
    if variance == 0:
        return csi
    noise = torch.randn(csi.shape, generator=generator, dtype=csi.dtype, device=generator.device)
    return (csi + math.sqrt(variance) * noise.to(csi.device)).clamp_min(CSI_FLOOR)


def denoised_csi(observed: Tensor, variance: float) -> Tensor:
    """Posterior mean E[H | observed] of gains in Gaussian noise, for a flat prior on H ≥ 0.

    It is the mean of a normal distribution truncated at 0: observed + σ φ(z) / Φ(z), with
    z = observed / σ and the density φ and distribution function Φ of the standard normal.

    Args:
        observed: noisy CSI, (..., L, L), in 1/W.
        variance: variance σ² of the noise, 1/W².

    Returns:
        Estimated H, (..., L, L), in 1/W.
    """
    if variance == 0:
        return observed
    deviation = math.sqrt(variance)
    z = observed / deviation
    density = torch.exp(-z.square() / 2) / math.sqrt(2 * math.pi)
    explained: Tensor = torch.special.ndtr(z)
    return observed + deviation * density / explained


def check_csi(csi: Tensor, workers: int | None = None) -> Tensor:
    """Validate CSI.

    Args:
        csi: H, (..., L, L), in 1/W.
        workers: required number of workers L; None: any.

    Returns:
        ``csi``.

    Raises:
        InputError: unless ``csi`` is a square float32 or float64 tensor of finite positive gains.
    """
    if not isinstance(csi, Tensor) or csi.dtype not in (torch.float32, torch.float64):
        given = csi.dtype if isinstance(csi, Tensor) else type(csi).__name__
        raise InputError(
            f"csi: {given} was given; accepted: a tensor of float32 or float64, of shape "
            "(..., L, L)."
        )
    if csi.ndim < 2 or csi.shape[-1] != csi.shape[-2] or csi.shape[-1] == 0:
        raise InputError(
            f"csi: shape {tuple(csi.shape)} is not square; accepted: (..., L, L) with L >= 1."
        )
    if workers is not None and csi.shape[-1] != workers:
        raise InputError(f"csi: {csi.shape[-1]} workers; accepted here: exactly {workers}.")
    if csi.numel() == 0:
        return csi
    low, high = _ends(csi)
    if not (math.isfinite(low) and math.isfinite(high)):
        raise InputError("csi: contains NaN or infinity; accepted: finite gains above 0.")
    if low <= 0:
        raise InputError(
            "csi: contains a negative or zero gain; accepted: finite gains above 0, linear, not in "
            "dB."
        )
    if low < _MIN_GAIN or high > _MAX_GAIN:
        raise InputError(
            f"csi: gains from {low:.3g} to {high:.3g} were given; accepted: {_MIN_GAIN:.3g} to "
            f"{_MAX_GAIN:.3g}, the range of float32."
        )
    return csi


def _ends(csi: Tensor) -> tuple[float, float]:
    """Smallest and largest gain; NaN if any gain is NaN."""
    if csi.is_cpu and csi.numel() <= _MAX_NUMPY_GAINS:
        gains = csi.detach().numpy()
        return float(np.minimum.reduce(gains, None)), float(np.maximum.reduce(gains, None))
    low, high = torch.aminmax(csi)
    return float(low), float(high)


def check_antenna(antenna: Tensor, csi: Tensor) -> Tensor:
    """Validate antenna coefficients.

    Args:
        antenna: complex coefficients, (N, L, K, n_R).
        csi: H, (N, L, L).

    Returns:
        ``antenna``.

    Raises:
        InputError: unless the coefficients are complex, finite and of a shape that matches H.
    """
    count, workers, _ = csi.shape
    if antenna.ndim != 4 or antenna.shape[:2] != (count, workers) or antenna.numel() == 0:
        raise InputError(
            f"antenna coefficients: shape {tuple(antenna.shape)} was given; accepted with H of "
            f"shape {tuple(csi.shape)}: ({count}, {workers}, K, n_R)."
        )
    if not antenna.is_complex() or not bool(torch.isfinite(torch.view_as_real(antenna)).all()):
        raise InputError(
            "antenna coefficients: NaN, infinity or real numbers were given; accepted: finite "
            "complex numbers."
        )
    return antenna
