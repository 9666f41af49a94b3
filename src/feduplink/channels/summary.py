"""Statistics of channels, and plausibility checks of recorded channels.

>>> summary = summarise(torch.tensor([[[1e3, 10.0], [20.0, 1e4]]]), torch.tensor(0.1))
>>> print(summary)
1 channel of 2 workers; median SNR at Pmax 25.0 dB, median SIR 23.5 dB, dynamic range 30.0 dB
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

#: Gains are probably in dB if their maximum, and the ratio of their mean to their median, are below
#: these values.
_MAX_DB, _MIN_SKEW = 200.0, 1.3
#: Plausible range of the median direct SNR at Pmax, dB.
_SNR_RANGE_DB = (-20.0, 80.0)
#: Maximum number of channels used for the detection of transposed channels.
_MAX_CHECKED = 2000
#: Thresholds of the detection, see :func:`looks_transposed`: tolerance of the antisymmetry of a
#: pair, share of such pairs, correlation, and excess of the variance between rows.
_SYMMETRY_TOLERANCE, _MIN_SYMMETRIC_SHARE = 1e-3, 0.1
_MAX_CORRELATION, _MIN_ROW_EXCESS = -0.8, 0.05


@dataclass(frozen=True)
class ChannelSummary:
    """Statistics of a set of channels.

    Attributes:
        channels: number of channels N.
        workers: number of workers L.
        snr_db: median of the direct SNR at Pmax, H_ii Pmax_i, over channels and workers, dB.
        sir_db: median signal-to-interference ratio with all workers at Pmax, dB; infinite for one
            worker.
        dynamic_range_db: ratio of the largest to the smallest gain, dB.
        order: description of the axes of a recording; empty for drawn channels.
    """

    channels: int
    workers: int
    snr_db: float
    sir_db: float
    dynamic_range_db: float
    order: str = ""

    def __str__(self) -> str:
        """Statistics on one line."""
        count = f"{self.channels} channel" + ("s" if self.channels != 1 else "")
        workers = f"{self.workers} worker" + ("s" if self.workers != 1 else "")
        order = f", {self.order}" if self.order else ""
        sir = f"median SIR {self.sir_db:.1f} dB" if self.workers > 1 else "no interference"
        return (
            f"{count} of {workers}{order}; median SNR at Pmax {self.snr_db:.1f} dB, {sir}, dynamic "
            f"range {self.dynamic_range_db:.1f} dB"
        )

    def as_metrics(self) -> dict[str, Any]:
        """Entry ``summary`` of ``metrics.json``."""
        return {
            "median_snr_db": self.snr_db,
            "median_sir_db": self.sir_db if math.isfinite(self.sir_db) else None,
            "dynamic_range_db": self.dynamic_range_db,
            "order": self.order,
        }


def summarise(csi: Tensor, pmax_w: Tensor, order: str = "") -> ChannelSummary:
    """Compute statistics of channels.

    Args:
        csi: H, (N, L, L), in 1/W.
        pmax_w: Pmax, () or (L,), W.
        order: description of the axes of a recording.

    Returns:
        The statistics, in dB.
    """
    count, workers, _ = csi.shape
    received = csi * pmax_w.to(csi)  # column j: from transmitter j
    direct = received.diagonal(dim1=-2, dim2=-1)
    interference = received.sum(-1) - direct
    low, high = csi.aminmax()
    sir = direct / interference if workers > 1 else torch.full_like(direct, math.inf)
    return ChannelSummary(
        count,
        workers,
        _median_db(direct),
        _median_db(sir),
        10 * math.log10(float(high) / float(low)),
        order,
    )


def _median_db(values: Tensor) -> float:
    """Median of positive numbers, in dB."""
    return float(np.median(10 * values.detach().double().log10().cpu().numpy()))


def doubts(csi: Tensor, summary: ChannelSummary, noise_power_w: float) -> list[str]:
    """Check recorded channels for gains in dB, missing normalisation and transposition.

    Args:
        csi: H, (N, L, L), in 1/W.
        summary: statistics of these channels.
        noise_power_w: noise power of the scenario, W, quoted in a warning.

    Returns:
        Warnings, without full stop; empty if the channels are plausible.
    """
    if decibels := looks_like_decibels(csi):
        return [decibels]  # other implausible values follow from this one
    found = []
    low, high = _SNR_RANGE_DB
    if not low <= summary.snr_db <= high:
        found.append(
            f"the median SNR at Pmax is {summary.snr_db:.0f} dB; gains have to be linear and "
            "divided by the noise power, which --noise-power does (in Python noise_power_w; the "
            f"scenario's is {noise_power_w:.3g} W)"
        )
    if transposed := looks_transposed(csi):
        found.append(transposed)
    return found


def looks_like_decibels(csi: Tensor) -> str:
    """Check whether gains are probably in dB.

    The distribution of linear gains is skewed: Rayleigh fading alone gives cross gains a mean of
    1.44 times their median. Gains in dB are less skewed, and below 200.

    Args:
        csi: H, (N, L, L).

    Returns:
        A warning, without full stop; empty if the gains are plausible or L = 1.
    """
    if csi.shape[-1] == 1:
        return ""  # direct gains alone may be similar
    values = csi.flatten().double()
    if values.max() < _MAX_DB and values.mean() < _MIN_SKEW * values.median():
        return "the gains are spread as evenly as if they were in dB; H is linear, 10 ** (dB / 10)"
    return ""


def looks_transposed(csi: Tensor) -> str:
    """Check whether H is probably transposed, H[transmitter, receiver].

    With matched filters at one base station, H_ij H_ii = |h_iᴴ h_j|² = H_ji H_jj, so that
    ln(H_ij / H_ji) = ln(H_jj / H_ii); the transpose has the opposite sign. In addition, the gain of
    transmitter j is common to column j, so that the variance of ln H between columns exceeds that
    between rows. H is reported if both properties are reversed, because MMSE filters reverse the
    first one.

    Args:
        csi: H, (N, L, L).

    Returns:
        A warning, without full stop; empty if the channels are plausible or L < 3.
    """
    workers = csi.shape[-1]
    if workers < 3:
        return ""
    gain_db = csi[:: math.ceil(len(csi) / _MAX_CHECKED)].double().log10()
    direct = gain_db.diagonal(dim1=-2, dim2=-1)
    first, second = torch.triu_indices(workers, workers, 1, device=csi.device)
    indirect_ratio = (gain_db - gain_db.mT)[:, first, second]
    direct_ratio = direct[:, second] - direct[:, first]
    norm = (indirect_ratio.square().sum() * direct_ratio.square().sum()).sqrt()
    correlation = (indirect_ratio * direct_ratio).sum() / norm
    largest = torch.maximum(indirect_ratio.abs(), direct_ratio.abs())
    opposed = (indirect_ratio + direct_ratio).abs() < _SYMMETRY_TOLERANCE * largest
    is_reversed = correlation < _MAX_CORRELATION or opposed.double().mean() > _MIN_SYMMETRIC_SHARE
    if is_reversed and _row_excess(gain_db) > _MIN_ROW_EXCESS:
        return (
            "H looks transposed: rows differ as columns should; column j of H is the transmitter, "
            "row i the receive filter, and --transpose (in Python transpose) exchanges them"
        )
    return ""


def _row_excess(gain_db: Tensor) -> float:
    """Share of the off-diagonal variance between rows minus the share between columns."""
    others = gain_db.shape[-1] - 1
    off_diagonal = ~torch.eye(others + 1, dtype=torch.bool, device=gain_db.device)
    masked = gain_db * off_diagonal
    mean = masked.sum((-2, -1), keepdim=True) / (others * (others + 1))
    centred = (gain_db - mean) * off_diagonal
    between_rows = (centred.sum(-1) / others).square().sum() * others
    between_columns = (centred.sum(-2) / others).square().sum() * others
    return float((between_rows - between_columns) / centred.square().sum())
