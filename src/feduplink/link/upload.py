"""How long uploads take and what they cost, when all senders of a round start together.

A worker that has sent its last bit leaves the air, and the SINR of those still sending rises. So
a round is a sequence of at most L phases with constant rates, one worker or more finishing at the
end of each. Freezing the SINRs of the first phase bounds every airtime from above, and by far: at
full power the weakest worker of a cell would wait twenty times too long.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from feduplink.link.quality import sinr as sinr_of

#: Uploads that would end within this relative time of each other end together.
_TOGETHER = 1e-12


@dataclass(frozen=True)
class Upload:
    """The uploads of a round, (..., L) each but ``duration_s``.

    Attributes:
        duration_s: from the first bit to the last one of the round, (...) s.
        power: of a worker while it sends, W; 0 for a silent one.
        airtime_s: how long a worker is on the air, s; 0 for a silent one.
        sent_bits: how many of its bits it has sent; less than all of them only at a deadline.
        finished: whether it has sent all of them; false for a silent one.
        sinr: while all senders of the round are on the air, the least of the round.
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
    throughput = bandwidth_hz * _bits_per_hz(torch.where(on_air, sinr, 1.0))
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


def simultaneous_upload(
    csi: Tensor,
    power: Tensor,
    bits: float | Tensor,
    bandwidth_hz: float,
    deadline_s: float | None = None,
) -> Upload:
    """All workers with p_i > 0 start together, and each leaves the air with its last bit.

    In a phase with the senders A worker i ∈ A sends B log2(1 + SINR_i(A)) bits per second; the
    phase ends with the first of A to finish, or at the deadline, where everybody stops.

    Args:
        csi: H, (..., L, L).
        power: p, (..., L) W, constant while a worker sends.
        bits: Z, a scalar or (L,).
        bandwidth_hz: B.
        deadline_s: end of the round, if it has one.

    >>> csi = torch.tensor([[3.0, 1.0], [1.0, 3.0]], dtype=torch.float64)
    >>> power = torch.tensor([1.0, 1.0], dtype=torch.float64)
    >>> bits = torch.tensor([1.0, 2.0])
    >>> simultaneous_upload(csi, power, bits, bandwidth_hz=1.0).airtime_s
    tensor([0.7565, 1.2565], dtype=torch.float64)
    """
    total = torch.as_tensor(bits, dtype=power.dtype, device=power.device).expand(power.shape)
    sending = power > 0
    first_sinr = sinr_of(csi, power)
    remaining = torch.where(sending, total, 0.0)
    airtime_s = torch.zeros_like(power)
    elapsed = power.new_zeros(power.shape[:-1])
    inverse = torch.zeros_like(power)
    current = first_sinr
    for _ in range(power.shape[-1]):
        if not bool(sending.any()):
            break
        heard = torch.where(sending, current, 1.0)
        throughput = bandwidth_hz * _bits_per_hz(heard)
        needed = torch.where(sending, remaining / throughput, math.inf)
        phase = needed.amin(-1)
        # Nobody left in this round: nothing happens any more.
        phase = torch.where(sending.any(-1), phase, 0.0)
        if deadline_s is not None:
            phase = torch.minimum(phase, deadline_s - elapsed)
        done = sending & (needed <= (phase * (1 + _TOGETHER))[..., None])
        sent = torch.where(done, remaining, throughput * phase[..., None])
        sent = torch.where(sending, sent, 0.0)
        inverse = inverse + sent / heard
        remaining = torch.where(done, 0.0, remaining - sent)
        airtime_s = airtime_s + torch.where(sending, phase[..., None], 0.0)
        elapsed = elapsed + phase
        sending = sending & ~done
        if deadline_s is not None:
            sending = sending & (elapsed < deadline_s)[..., None]
        current = sinr_of(csi, torch.where(sending, power, 0.0))
    on_air = power > 0
    sent_bits = torch.where(on_air, total - remaining, 0.0)
    shares = torch.where(sent_bits > 0, sent_bits, 1.0)
    return Upload(
        duration_s=elapsed,
        power=power,
        airtime_s=airtime_s,
        sent_bits=sent_bits,
        finished=on_air & (remaining == 0),
        sinr=first_sinr,
        mean_inverse_sinr=torch.where(sent_bits > 0, inverse / shares, math.inf),
    )


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


def _bits_per_hz(sinr: Tensor) -> Tensor:
    """log2(1 + SINR), bit/s/Hz."""
    return torch.log1p(sinr) / math.log(2)
