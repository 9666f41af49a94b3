"""Linear receivers: CSI H from complex channels by MRC and MMSE filters.

Channels are complex amplitude gains (..., L, n_R) to one base station, divided by the noise's
standard deviation σ, so that the noise has unit power at every antenna. Interference from other
cells is part of the noise, with covariance C (..., n_R, n_R).
"""

from __future__ import annotations

import torch
from torch import Tensor


def mrc_csi(channels: Tensor, covariance: Tensor | None = None) -> Tensor:
    """CSI of maximum-ratio combining (matched filter), w_i = h_i.

    Args:
        channels: h, (..., L, n_R) complex, in 1/√W.
        covariance: noise covariance C, (..., n_R, n_R); None: identity.

    Returns:
        H, (..., L, L), in 1/W.

    >>> mrc_csi(torch.tensor([[3.0 + 0j, 4.0], [5.0, 0.0]]))
    tensor([[25.,  9.],
            [ 9., 25.]])
    """
    return filtered_csi(channels, channels, covariance)


def mmse_csi(channels: Tensor, power_w: Tensor, covariance: Tensor | None = None) -> Tensor:
    """CSI of MMSE receive filters, w_i = (C + Σ_j p_j h_j h_jᴴ)⁻¹ h_i.

    The filters maximise every SINR_i at the powers p = ``power_w``. As H must not depend on the
    powers that a policy chooses, the same filters are used at all powers, for which they are
    suboptimal.

    Args:
        channels: h, (..., L, n_R) complex, in 1/√W.
        power_w: transmit powers p of the filter design, () or (L,), W.
        covariance: noise covariance C, (..., n_R, n_R); None: identity.

    Returns:
        H, (..., L, L), in 1/W.

    >>> mmse_csi(torch.tensor([[1.0 + 0j, 0.0], [1.0, 1.0]]), torch.tensor(1e6)).diagonal()
    tensor([0.5000, 1.0000])
    """
    received = _covariance(channels, covariance) + _sent_covariance(channels, power_w)
    return filtered_csi(channels, torch.linalg.solve(received, channels.mT).mT, covariance)


def filtered_csi(channels: Tensor, filters: Tensor, covariance: Tensor | None = None) -> Tensor:
    """CSI of given receive filters, H_ij = |w_iᴴ h_j|² / (w_iᴴ C w_i).

    Args:
        channels: h, (..., L, n_R) complex, in 1/√W.
        filters: w, (..., L, n_R) complex.
        covariance: noise covariance C, (..., n_R, n_R); None: identity.

    Returns:
        H, (..., L, L), in 1/W.
    """
    noise = (filters.conj() @ _covariance(channels, covariance) * filters).sum(-1).real
    return (filters.conj() @ channels.mT).abs().square() / noise[..., None]


def interference_covariance(channels: Tensor, power_w: Tensor) -> Tensor:
    """Covariance of noise and interfering users, C = I + Σ_u p_u g_u g_uᴴ.

    Args:
        channels: channels g of the interfering users, (..., U, n_R) complex, in 1/√W.
        power_w: their transmit powers p, (..., U), W.

    Returns:
        C, (..., n_R, n_R).
    """
    return _covariance(channels, None) + _sent_covariance(channels, power_w)


def _sent_covariance(channels: Tensor, power_w: Tensor) -> Tensor:
    """Σ_j p_j h_j h_jᴴ, (..., n_R, n_R)."""
    sent = channels * power_w.to(channels).sqrt().expand(channels.shape[:-1])[..., None]
    return sent.mT @ sent.conj()


def _covariance(channels: Tensor, covariance: Tensor | None) -> Tensor:
    """The covariance, or the identity for None."""
    if covariance is not None:
        return covariance
    return torch.eye(channels.shape[-1], dtype=channels.dtype, device=channels.device)
