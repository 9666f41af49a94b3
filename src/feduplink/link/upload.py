"""What an upload takes in seconds and joules, and which thresholds limits on these stand for."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Upload:
    """The uploads of a round, (..., L) each but ``duration_s``.

    Attributes:
        duration_s: from the first bit to the last one of the round, (...) s.
        power: of a worker while it sends, its mean over the time if it changes, W; 0 for a silent
            one.
        airtime_s: how long a worker is on the air, s; 0 for a silent one.
        sent_bits: how many of its bits it has sent; less than all of them only at a deadline.
        finished: whether it has sent all of them; false for a silent one.
        sinr: the least of the round while the worker sends; if all senders start together, that
            of the beginning.
        mean_inverse_sinr: Σ_k b_k / SINR_k over the phases k of the round, b_k the share of the
            sent bits that the worker sends in phase k; infinite for a silent one.
    """

    duration_s: Tensor
    power: Tensor
    airtime_s: Tensor
    sent_bits: Tensor
    finished: Tensor
    sinr: Tensor
    mean_inverse_sinr: Tensor


def airtime(sinr: Tensor, bits: float | Tensor, bandwidth_hz: float) -> Tensor:
    """τ = Z / (B log2(1 + SINR)) in s to send Z bits at a constant SINR; infinite at SINR 0."""
    on_air = sinr > 0
    throughput = bandwidth_hz * bits_per_hz(torch.where(on_air, sinr, 1.0))
    return torch.where(on_air, bits / throughput, math.inf)


def energy(
    power: Tensor,
    airtime_s: Tensor,
    bits: float | Tensor,
    static_power_w: float | Tensor,
    compute_energy_j_per_bit: float | Tensor = 0.0,
) -> Tensor:
    """E = c_comp Z + (p + P_c) τ in J; a silent worker only spends the computation."""
    on_air_s = torch.where(power > 0, airtime_s, 0.0)
    return compute_energy_j_per_bit * bits + (power + static_power_w) * on_air_s


def rate_for_time(bits: float | Tensor, time_max_s: float | Tensor, bandwidth_hz: float) -> Tensor:
    """r0 = Z ln 2 / (B T) in nats/s/Hz: the rate at which Z bits take T seconds.

    The paper's reading of a time limit. A worker whose *mean* rate is r0 takes longer than T in
    its bad rounds, and by Jensen's inequality also on average, unless its rate is constant.
    """
    return torch.as_tensor(bits) * math.log(2) / (bandwidth_hz * torch.as_tensor(time_max_s))


def efficiency_for_energy(
    bits: float | Tensor,
    energy_max_j: float | Tensor,
    bandwidth_hz: float,
    compute_energy_j_per_bit: float | Tensor = 0.0,
) -> Tensor:
    """e0 = (ln 2 / B) / (E / Z − c_comp) in nats/s/Hz/W: the efficiency at which Z bits cost E.

    The paper's e0 = (E / Z − c_comp)^(−1) is in bits per joule; a rate of one bit per second is
    ln 2 / B nats/s/Hz. Infinite or negative where the computation alone costs E or more.
    """
    per_bit = torch.as_tensor(energy_max_j) / torch.as_tensor(bits) - compute_energy_j_per_bit
    return math.log(2) / bandwidth_hz / per_bit


def bits_per_hz(sinr: Tensor) -> Tensor:
    """log2(1 + SINR), bit/s/Hz."""
    return torch.log1p(sinr) / math.log(2)
