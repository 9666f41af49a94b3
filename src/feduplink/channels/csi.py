"""Channel-state information: from antenna coefficients to H, and what a policy gets to see."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from feduplink.errors import InputError

#: What an estimate of a gain is floored at so that it stays positive: -30 dB over the noise for
#: a transmitter of 1 W, lost in the noise at any power a device has.
CSI_FLOOR = 1e-3

_LEAST_GAIN, _LARGEST_GAIN = (
    torch.finfo(torch.float32).smallest_normal,
    torch.finfo(torch.float32).max,
)
#: So few gains are looked at in NumPy, in a third of the time that PyTorch takes for the call.
_FEW_GAINS = 4096


def matched_filter_csi(
    fading: Tensor, gain: Tensor, serving: Tensor, noise_power_w: float
) -> Tensor:
    """CSI of a matched-filter receiver.

    H_ii = ‖h_i‖²/σ² and H_ij = |h_iᴴ h_j|² / (σ² ‖h_i‖²), where both channels are those to the
    base station that serves i.

    Args:
        fading: unit-power coefficients, (N, L, K, n_R, 2), real and imaginary part last.
        gain: mean power gain of worker to station, (N, L, K) or (1, L, K), linear.
        serving: index of each worker's station, (N, L) or (1, L).
        noise_power_w: σ², W.

    Returns:
        (N, L, L) in the dtype of ``fading``.

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
    """|aᴴ b|² of all pairs, (..., A, n, 2) and (..., B, n, 2) to (..., A, B)."""
    a_re, a_im = left[..., 0], left[..., 1]
    b = torch.cat((right[..., 0], right[..., 1]), dim=-1).mT
    real = torch.cat((a_re, a_im), dim=-1) @ b
    imaginary = torch.cat((-a_im, a_re), dim=-1) @ b
    return real.square_().add_(imaginary.square_())


def scale_interference(csi: Tensor, factor: float) -> Tensor:
    """Multiply the off-diagonal of H by ``factor``; the direct gains stay."""
    if factor == 1:
        return csi
    direct = torch.eye(csi.shape[-1], dtype=torch.bool, device=csi.device)
    return torch.where(direct, csi, factor * csi)


def noisy_csi(csi: Tensor, variance: float, generator: torch.Generator) -> Tensor:
    """H plus white Gaussian noise of the given variance, floored at :data:`CSI_FLOOR`."""
    if variance == 0:
        return csi
    noise = torch.randn(csi.shape, generator=generator, dtype=csi.dtype, device=generator.device)
    return (csi + math.sqrt(variance) * noise.to(csi.device)).clamp_min(CSI_FLOOR)


def denoised_csi(observed: Tensor, variance: float) -> Tensor:
    """E[H | observed] for H plus Gaussian noise of known variance, all gains ≥ 0 equally likely.

    The mean of a normal distribution cut off at 0: observed + σ φ(z) / Φ(z), z = observed / σ. A
    gain far above the noise stays as it is; one lost in the noise becomes about as large as it.
    """
    if variance == 0:
        return observed
    deviation = math.sqrt(variance)
    z = observed / deviation
    density = torch.exp(-z.square() / 2) / math.sqrt(2 * math.pi)
    explained: Tensor = torch.special.ndtr(z)
    return observed + deviation * density / explained


def check_csi(csi: Tensor, workers: int | None = None) -> Tensor:
    """Return ``csi`` if it is (..., L, L), floating, finite and positive; raise otherwise.

    In 16 bits powers would be rounded to above Pmax, and gains to infinity.
    """
    if not isinstance(csi, Tensor) or csi.dtype not in (torch.float32, torch.float64):
        raise InputError("csi: accepted is a tensor of float32 or float64, of shape (..., L, L).")
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
        raise InputError("csi: holds NaN or infinity; accepted: finite gains above 0.")
    if low <= 0:
        raise InputError(
            "csi: holds a negative or zero gain; accepted: finite gains above 0, linear, not in dB."
        )
    if low < _LEAST_GAIN or high > _LARGEST_GAIN:
        raise InputError(
            f"csi: gains from {low:.3g} to {high:.3g}; accepted: {_LEAST_GAIN:.3g} to "
            f"{_LARGEST_GAIN:.3g}, what 32 bits hold."
        )
    return csi


def _ends(csi: Tensor) -> tuple[float, float]:
    """The least and the largest gain, NaN if there is one."""
    if csi.is_cpu and csi.numel() <= _FEW_GAINS:
        gains = csi.detach().numpy()
        return float(np.minimum.reduce(gains, None)), float(np.maximum.reduce(gains, None))
    low, high = torch.aminmax(csi)
    return float(low), float(high)


def check_antenna(antenna: Tensor, csi: Tensor) -> Tensor:
    """Return ``antenna`` if it may be behind H (N, L, L): (N, L, K, n_R), complex, finite."""
    count, workers, _ = csi.shape
    if antenna.ndim != 4 or antenna.shape[:2] != (count, workers) or antenna.numel() == 0:
        raise InputError(
            f"antenna coefficients: shape {tuple(antenna.shape)}; accepted with H "
            f"{tuple(csi.shape)}: ({count}, {workers}, K, n_R)."
        )
    if not antenna.is_complex() or not bool(torch.isfinite(torch.view_as_real(antenna)).all()):
        raise InputError(
            "antenna coefficients: hold NaN, infinity or real numbers; accepted: finite complex "
            "ones."
        )
    return antenna
