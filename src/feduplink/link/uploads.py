"""Uploads of a round: schedules of phases, TDMA and OFDMA among them, their airtime and energy.

A worker stops transmitting once its upload is complete, and the SINR of the others rises. With all
senders active from the start, and constant powers, a round has at most L phases with constant
rates, one worker or more finishing at the end of each. Freezing the SINRs of the first phase
overestimates every airtime: at full power that of the weakest worker of a cell by a factor of
twenty. A schedule may also change powers and senders in the course of the round.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from feduplink.link.quality import most_efficient_power, rate
from feduplink.link.quality import sinr as sinr_of
from feduplink.tensor_record import TensorRecord


@dataclass(frozen=True)
class Upload(TensorRecord):
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
    return rate(sinr) / math.log(2)


#: What would end within this relative time of each other ends together.
_TOGETHER = 1e-12


@dataclass(frozen=True, repr=False)
class Schedule(TensorRecord):
    """Who sends when, at which power: K phases of every round.

    Attributes:
        durations_s: of the phases, (..., K) s; infinite: until all of its senders have finished.
        power: in every phase, (..., K, L) W; 0 for a worker that is silent in it.
        band_share: share of the band that a worker has for itself, (..., L), without interference
            and with noise in proportion; None: all senders use the whole band.
    """

    durations_s: Tensor
    power: Tensor
    band_share: Tensor | None = None

    @classmethod
    def simultaneous(cls, power: Tensor) -> Schedule:
        """One phase: all workers with p_i > 0 start together, powers (..., L) W."""
        durations_s = torch.full_like(power[..., :1], math.inf)
        return cls(durations_s, power[..., None, :])

    @classmethod
    def tdma(cls, power: Tensor) -> Schedule:
        """One worker after the other, in the order of their numbers, powers (..., L) W.

        SINR_i = α_i p_i. The round lasts as long as all uploads together.
        """
        return cls(torch.full_like(power, math.inf), torch.diag_embed(power))

    @classmethod
    def ofdma(cls, power: Tensor) -> Schedule:
        """All n workers with p_i > 0 at once, each on B/n for the whole round, (..., L) W.

        SINR_i = n α_i p_i. The round lasts as long as the slowest upload.
        """
        count = (power > 0).sum(-1, keepdim=True).clamp_min(1)
        share = (1 / count.to(power)).expand(power.shape)
        return replace(cls.simultaneous(power), band_share=share)

    def __repr__(self) -> str:
        """How many rounds, phases and workers."""
        rounds, (phases, workers) = self.power.shape[:-2], self.power.shape[-2:]
        return f"Schedule({math.prod(rounds)} rounds of {phases} phases, {workers} workers)"

    @property
    def senders(self) -> Tensor:
        """Who sends in any phase that takes time, (..., L) bool."""
        return ((self.power > 0) & (self.durations_s > 0)[..., None]).any(-2)

    @property
    def time_s(self) -> Tensor:
        """Planned length of the round, (...) s."""
        return self.durations_s.sum(-1)

    def energy_j(self, static_power_w: float | Tensor) -> Tensor:
        """Planned energy on the air, Σ_k t_k Σ_{i on} (p_ik + P_c), (...) J."""
        drawn = torch.where(self.power > 0, self.power + static_power_w, 0.0).sum(-1)
        return (self.durations_s * drawn).sum(-1)

    def planned_bits(self, csi: Tensor, bandwidth_hz: float) -> Tensor:
        """What every worker can send if all phases take their time, (..., L) bits."""
        share = None if self.band_share is None else self.band_share[..., None, :]
        rates = bandwidth_hz * bits_per_hz(_sinr(csi[..., None, :, :], self.power, share))
        if share is not None:
            rates = rates * share
        return (self.durations_s[..., None] * rates).sum(-2)

    def batched(self) -> Schedule:
        """The schedule of one round as a batch of one."""
        return self._map(lambda own: own[None])

    def limited(self, pmax_w: Tensor) -> Schedule:
        """The same with no power above Pmax, () or (L,) W."""
        return replace(self, power=torch.minimum(self.power, pmax_w.to(self.power)))


def scheduled_upload(
    csi: Tensor,
    schedule: Schedule,
    bits: float | Tensor,
    bandwidth_hz: float,
    deadline_s: float | None = None,
) -> Upload:
    """What comes of a schedule on the channels H.

    In a phase with the senders A worker i ∈ A sends B log2(1 + SINR_i(A)) bits per second, and
    leaves A with its last bit. A phase ends after its duration, or when all of its senders have
    finished. A worker that has not finished after the last phase, because the schedule was made
    for other channels, goes on at its last power. At the deadline all workers stop.

    Args:
        csi: H, (..., L, L).
        schedule: K phases of every round.
        bits: Z, a scalar, (L,) or (..., L).
        bandwidth_hz: B.
        deadline_s: end of the round, if it has one.
    """
    planned = schedule.power
    powers = torch.cat((planned, _last_powers(schedule)[..., None, :]), -2)
    durations = schedule.durations_s
    durations = torch.cat((durations, torch.full_like(durations[..., :1], math.inf)), -1)
    joins = ((powers > 0) & (durations > 0)[..., None]).any(-2)
    total = torch.as_tensor(bits, dtype=powers.dtype, device=powers.device).expand(joins.shape)
    remaining = torch.where(joins, total, 0.0)
    phase = torch.zeros(joins.shape[:-1], dtype=torch.int64, device=powers.device)
    left = durations[..., 0]
    airtime_s, inverse, energy = (torch.zeros_like(remaining) for _ in range(3))
    elapsed = powers.new_zeros(joins.shape[:-1])
    worst = torch.full_like(remaining, math.inf)
    stopped = torch.zeros_like(phase, dtype=torch.bool)
    # Every step ends a phase or the upload of a worker.
    for _ in range(sum(powers.shape[-2:])):
        unfinished = (remaining > 0) & ~stopped[..., None]
        if not bool(unfinished.any()):
            break
        power = powers.gather(-2, phase[..., None, None].expand(*phase.shape, 1, joins.shape[-1]))
        power = torch.where(unfinished, power[..., 0, :], 0.0)
        sending = power > 0
        heard = torch.where(sending, _sinr(csi, power, schedule.band_share), 1.0)
        throughput = bandwidth_hz * bits_per_hz(heard)
        if schedule.band_share is not None:
            throughput = throughput * schedule.band_share
        needed = torch.where(sending, remaining / throughput, math.inf)
        step = torch.where(sending.any(-1), torch.minimum(needed.amin(-1), left), 0.0)
        if deadline_s is not None:
            step = torch.minimum(step, deadline_s - elapsed)
        done = sending & (needed <= (step * (1 + _TOGETHER))[..., None])
        sent = torch.where(done, remaining, throughput * step[..., None])
        sent = torch.where(sending, sent, 0.0)
        worst = torch.where(sent > 0, torch.minimum(worst, heard), worst)
        inverse = inverse + sent / heard
        remaining = torch.where(done, 0.0, remaining - sent)
        airtime_s = airtime_s + torch.where(sending, step[..., None], 0.0)
        energy = energy + power * step[..., None]
        elapsed = elapsed + step
        if deadline_s is not None:
            stopped = elapsed >= deadline_s
        # The next phase where this one is over, or nobody sends in it any more.
        over = (left <= step * (1 + _TOGETHER)) | ~(sending & ~done).any(-1)
        over = over & (phase < durations.shape[-1] - 1)
        phase = phase + over.to(phase)
        left = torch.where(over, durations.gather(-1, phase[..., None])[..., 0], left - step)
    on_air = airtime_s > 0
    sent_bits = torch.where(on_air, total - remaining, 0.0)
    shares = torch.where(sent_bits > 0, sent_bits, 1.0)
    constant = (planned == _last_powers(schedule)[..., None, :]) | (planned == 0)
    mean_power = energy / torch.where(on_air, airtime_s, 1.0)
    return Upload(
        duration_s=elapsed,
        power=torch.where(constant.all(-2) & on_air, _last_powers(schedule), mean_power),
        airtime_s=airtime_s,
        sent_bits=sent_bits,
        finished=on_air & (remaining == 0),
        sinr=torch.where(on_air, worst, 0.0),
        mean_inverse_sinr=torch.where(sent_bits > 0, inverse / shares, math.inf),
    )


def simultaneous_upload(
    csi: Tensor,
    power: Tensor,
    bits: float | Tensor,
    bandwidth_hz: float,
    deadline_s: float | None = None,
) -> Upload:
    """All workers with p_i > 0 start together, and each leaves the air with its last bit.

    As :func:`scheduled_upload` with one phase, at the powers p, (..., L) W.

    >>> csi = torch.tensor([[3.0, 1.0], [1.0, 3.0]], dtype=torch.float64)
    >>> power = torch.tensor([1.0, 1.0], dtype=torch.float64)
    >>> bits = torch.tensor([1.0, 2.0])
    >>> simultaneous_upload(csi, power, bits, bandwidth_hz=1.0).airtime_s
    tensor([0.7565, 1.2565], dtype=torch.float64)
    """
    return scheduled_upload(csi, Schedule.simultaneous(power), bits, bandwidth_hz, deadline_s)


def _last_powers(schedule: Schedule) -> Tensor:
    """Of every worker in the last phase that it sends in, (..., L) W; 0 for a silent one."""
    sends = (schedule.power > 0) & (schedule.durations_s > 0)[..., None]
    numbers = torch.arange(1, sends.shape[-2] + 1, device=sends.device)[:, None]
    last = (sends * numbers).amax(-2, keepdim=True)
    powers = schedule.power.gather(-2, (last - 1).clamp_min(0))[..., 0, :]
    return torch.where(last[..., 0, :] > 0, powers, 0.0)


def _sinr(csi: Tensor, power: Tensor, band_share: Tensor | None) -> Tensor:
    """SINR on the whole band, or SNR on each worker's share of it, (..., L)."""
    if band_share is None:
        return sinr_of(csi, power)
    return csi.diagonal(dim1=-2, dim2=-1) * power / band_share


def power_alone(
    gain: Tensor, pmax_w: Tensor, static_power_w: Tensor, seconds_per_joule: float
) -> Tensor:
    """The p ≤ Pmax that minimises (1 + κ (p + P_c)) / ln(1 + α p), (..., L) W; Pmax for κ = 0.

    That is the most efficient power of a worker with a static power of P_c + 1/κ.

    Args:
        gain: α, the SNR per watt on what the worker has of the band, (..., L).
        pmax_w: largest power, () or (L,).
        static_power_w: P_c, () or (L,).
        seconds_per_joule: κ ≥ 0.
    """
    limit = pmax_w.to(gain).expand(gain.shape)
    if seconds_per_joule == 0:
        return limit
    best = most_efficient_power(gain, static_power_w + 1 / seconds_per_joule)
    return torch.minimum(best.to(gain), limit)
