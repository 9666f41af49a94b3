"""From complex channels to H: what is left of them after linear receive filters.

Channels here are (..., L, n_R) complex amplitude gains to one base station in units of the noise's
deviation σ, so that the noise has power one at every antenna. What else disturbs the receiver, as
users of other cells do, is part of the noise: its covariance C (..., n_R, n_R) is then no longer
the identity.
"""

from __future__ import annotations

import torch
from torch import Tensor


def mrc_csi(channels: Tensor, covariance: Tensor | None = None) -> Tensor:
    """H (..., L, L) of maximum-ratio combining, w_i = h_i, the matched filter.

    >>> mrc_csi(torch.tensor([[3.0 + 0j, 4.0], [5.0, 0.0]]))
    tensor([[25.,  9.],
            [ 9., 25.]])
    """
    return filtered_csi(channels, channels, covariance)


def mmse_csi(channels: Tensor, power_w: Tensor, covariance: Tensor | None = None) -> Tensor:
    """H (..., L, L) of the filters with the least mean squared error at the powers given.

    w_i = (C + Σ_j p_j h_j h_jᴴ)⁻¹ h_i, which has the largest SINR_i of all filters at these powers.
    H has to be the same whatever a policy chooses, so the filters stay those of ``power_w``, () or
    (L,) W, at other powers too: for full power, SINRs at lower powers are those of a receiver that
    was not told of them.

    >>> mmse_csi(torch.tensor([[1.0 + 0j, 0.0], [1.0, 1.0]]), torch.tensor(1e6)).diagonal()
    tensor([0.5000, 1.0000])
    """
    received = _covariance(channels, covariance) + _sent_covariance(channels, power_w)
    return filtered_csi(channels, torch.linalg.solve(received, channels.mT).mT, covariance)


def filtered_csi(channels: Tensor, filters: Tensor, covariance: Tensor | None = None) -> Tensor:
    """H_ij = |w_iᴴ h_j|² / w_iᴴ C w_i of receive filters w (..., L, n_R); (..., L, L)."""
    noise = (filters.conj() @ _covariance(channels, covariance) * filters).sum(-1).real
    return (filters.conj() @ channels.mT).abs().square() / noise[..., None]


def interference_covariance(channels: Tensor, power_w: Tensor) -> Tensor:
    """C = I + Σ_u p_u g_u g_uᴴ (..., n_R, n_R) of users g (..., U, n_R) that send at (..., U) W."""
    return _covariance(channels, None) + _sent_covariance(channels, power_w)


def _sent_covariance(channels: Tensor, power_w: Tensor) -> Tensor:
    """Σ_j p_j h_j h_jᴴ, (..., n_R, n_R)."""
    sent = channels * power_w.to(channels).sqrt().expand(channels.shape[:-1])[..., None]
    return sent.mT @ sent.conj()


def _covariance(channels: Tensor, covariance: Tensor | None) -> Tensor:
    if covariance is not None:
        return covariance
    return torch.eye(channels.shape[-1], dtype=channels.dtype, device=channels.device)
