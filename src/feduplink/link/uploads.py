"""Uploads of a round: schedules (including TDMA and OFDMA), airtime and energy.

A worker stops transmitting once its upload is complete, which raises the SINR of the others. If all
workers start together at constant powers, a round consists of at most L phases with constant rates;
each ends with the completion of at least one upload. A schedule may also change the powers and the
set of transmitting workers between phases.
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
    """The uploads of a batch of rounds.

    Attributes:
        duration_s: duration of the round, (...), s.
        power: mean transmit power over the airtime, (..., L), W; 0 for a silent worker.
        airtime_s: airtime, (..., L), s; 0 for a silent worker.
        sent_bits: number of bits sent, (..., L); less than Z only at a deadline or if silent.
        finished: whether the upload is complete, (..., L) bool; False for a silent worker.
        sinr: lowest SINR of the phases in which the worker transmits, (..., L), linear; 0 for a
            silent worker.
        mean_inverse_sinr: Σ_k b_k / SINR_k over the phases k, where b_k is the share of the
            worker's sent bits that it sends in phase k, (..., L); ∞ for a silent worker.
    """

    duration_s: Tensor
    power: Tensor
    airtime_s: Tensor
    sent_bits: Tensor
    finished: Tensor
    sinr: Tensor
    mean_inverse_sinr: Tensor


def airtime(sinr: Tensor, bits: float | Tensor, bandwidth_hz: float) -> Tensor:
    """Airtime of an upload at constant SINR, τ = Z / (B log2(1 + SINR)).

    Args:
        sinr: SINR, (..., L), linear.
        bits: size Z of the upload, a number or (L,), bits.
        bandwidth_hz: bandwidth B, Hz.

    Returns:
        τ, (..., L), s; infinite where the SINR is 0.
    """
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
    """Energy of a round, E = c_comp Z + (p + P_c) τ for p > 0, and c_comp Z for a silent worker.

    Args:
        power: transmit powers p, (..., L), W.
        airtime_s: airtimes τ, (..., L), s.
        bits: size Z of the upload, a number or (L,), bits.
        static_power_w: static power P_c, a number, () or (L,), W.
        compute_energy_j_per_bit: computation energy c_comp, a number, () or (L,), J/bit.

    Returns:
        E, (..., L), J.
    """
    on_air_s = torch.where(power > 0, airtime_s, 0.0)
    return compute_energy_j_per_bit * bits + (power + static_power_w) * on_air_s


def rate_for_time(bits: float | Tensor, time_max_s: float | Tensor, bandwidth_hz: float) -> Tensor:
    """Rate at which an upload of Z bits takes the time T, r0 = Z ln 2 / (B T).

    As in the paper, r0 serves as a threshold on the *mean* rate. By Jensen's inequality, a worker
    with mean rate r0 has a mean airtime above T unless its rate is constant.

    Args:
        bits: size Z of the upload, a number or (L,), bits.
        time_max_s: time T, a number or (L,), s.
        bandwidth_hz: bandwidth B, Hz.

    Returns:
        r0, () or (L,), nats/s/Hz.
    """
    return torch.as_tensor(bits) * math.log(2) / (bandwidth_hz * torch.as_tensor(time_max_s))


def efficiency_for_energy(
    bits: float | Tensor,
    energy_max_j: float | Tensor,
    bandwidth_hz: float,
    compute_energy_j_per_bit: float | Tensor = 0.0,
) -> Tensor:
    """Energy efficiency at which an upload takes the energy E, e0 = (ln 2 / B) / (E / Z − c_comp).

    The paper's e0 = 1 / (E / Z − c_comp) is in bit/J; 1 bit/J = ln 2 / B nats/s/Hz/W.

    Args:
        bits: size Z of the upload, a number or (L,), bits.
        energy_max_j: energy E, a number or (L,), J.
        bandwidth_hz: bandwidth B, Hz.
        compute_energy_j_per_bit: computation energy c_comp, a number, () or (L,), J/bit.

    Returns:
        e0, () or (L,), nats/s/Hz/W; infinite or negative if c_comp Z ≥ E.
    """
    per_bit = torch.as_tensor(energy_max_j) / torch.as_tensor(bits) - compute_energy_j_per_bit
    return math.log(2) / bandwidth_hz / per_bit


def bits_per_hz(sinr: Tensor) -> Tensor:
    """Spectral efficiency log2(1 + SINR), bit/s/Hz, of the shape of the SINR."""
    return rate(sinr) / math.log(2)


#: Relative tolerance within which events at the end of a step are simultaneous.
_TIME_TOL = 1e-12


@dataclass(frozen=True, repr=False)
class Schedule(TensorRecord):
    """Schedule of K phases per round: duration of each phase and transmit powers in it.

    Attributes:
        durations_s: durations of the phases, (..., K), s; infinite: until all workers that transmit
            in the phase have completed their uploads.
        power: transmit powers in every phase, (..., K, L), W; 0 for a silent worker.
        band_share: exclusive share of the band per worker, (..., L), without interference and with
            proportional noise power; None: all workers use the whole band.
    """

    durations_s: Tensor
    power: Tensor
    band_share: Tensor | None = None

    @classmethod
    def simultaneous(cls, power: Tensor) -> Schedule:
        """Schedule with one phase, in which all workers with p_i > 0 start together.

        Args:
            power: transmit powers, (..., L), W.

        Returns:
            The schedule.
        """
        durations_s = torch.full_like(power[..., :1], math.inf)
        return cls(durations_s, power[..., None, :])

    @classmethod
    def tdma(cls, power: Tensor) -> Schedule:
        """Time division: workers transmit one after the other, in the order of their indices.

        SINR_i = α_i p_i, and the duration of the round is the sum of all airtimes.

        Args:
            power: transmit powers, (..., L), W.

        Returns:
            The schedule, of L phases.
        """
        return cls(torch.full_like(power, math.inf), torch.diag_embed(power))

    @classmethod
    def ofdma(cls, power: Tensor) -> Schedule:
        """Frequency division: each of the n workers with p_i > 0 uses a bandwidth of B/n.

        SINR_i = n α_i p_i, and the duration of the round is the longest airtime.

        Args:
            power: transmit powers, (..., L), W.

        Returns:
            The schedule, of one phase.
        """
        count = (power > 0).sum(-1, keepdim=True).clamp_min(1)
        share = (1 / count.to(power)).expand(power.shape)
        return replace(cls.simultaneous(power), band_share=share)

    def __repr__(self) -> str:
        """Numbers of rounds, phases and workers."""
        rounds, (phases, workers) = self.power.shape[:-2], self.power.shape[-2:]
        return f"Schedule({math.prod(rounds)} rounds of {phases} phases, {workers} workers)"

    @property
    def senders(self) -> Tensor:
        """Workers that transmit in a phase of positive duration, (..., L) bool."""
        return ((self.power > 0) & (self.durations_s > 0)[..., None]).any(-2)

    @property
    def time_s(self) -> Tensor:
        """Planned duration of the round, Σ_k t_k, (...), s."""
        return self.durations_s.sum(-1)

    def energy_j(self, static_power_w: float | Tensor) -> Tensor:
        """Planned transmission energy of all workers, Σ_k t_k Σ_{i: p_ik > 0} (p_ik + P_c).

        Args:
            static_power_w: static power P_c, a number, () or (L,), W.

        Returns:
            Energy, (...), J.
        """
        drawn = torch.where(self.power > 0, self.power + static_power_w, 0.0).sum(-1)
        return (self.durations_s * drawn).sum(-1)

    def planned_bits(self, csi: Tensor, bandwidth_hz: float) -> Tensor:
        """Number of bits that every worker can send in the planned phases.

        Args:
            csi: channels H, (..., L, L), in 1/W.
            bandwidth_hz: bandwidth B, Hz.

        Returns:
            Bits, (..., L).
        """
        share = None if self.band_share is None else self.band_share[..., None, :]
        rates = bandwidth_hz * bits_per_hz(_sinr(csi[..., None, :, :], self.power, share))
        if share is not None:
            rates = rates * share
        return (self.durations_s[..., None] * rates).sum(-2)

    def batched(self) -> Schedule:
        """The schedule of one round with a leading batch dimension of 1."""
        return self._map(lambda own: own[None])

    def limited(self, pmax_w: Tensor) -> Schedule:
        """Copy with powers clipped to Pmax, () or (L,), W."""
        return replace(self, power=torch.minimum(self.power, pmax_w.to(self.power)))


def scheduled_upload(
    csi: Tensor,
    schedule: Schedule,
    bits: float | Tensor,
    bandwidth_hz: float,
    deadline_s: float | None = None,
) -> Upload:
    """Simulate the uploads of a schedule.

    While the workers A transmit, worker i ∈ A sends B log2(1 + SINR_i(A)) bit/s. It stops once its
    upload is complete. A phase ends after its duration, or when all of its workers have completed
    their uploads. A worker whose upload is incomplete after the last phase, because the schedule
    was computed for other channels, continues at its last power. At the deadline all workers stop.

    Args:
        csi: channels H, (..., L, L), in 1/W.
        schedule: K phases per round.
        bits: size Z of one upload, a number, (L,) or (..., L), bits.
        bandwidth_hz: bandwidth B, Hz.
        deadline_s: end of the round, s; None: no deadline.

    Returns:
        Airtimes, bits, powers and SINRs of the uploads.
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
    # Every step completes a phase or the upload of a worker.
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
        done = sending & (needed <= (step * (1 + _TIME_TOL))[..., None])
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
        # A phase is over after its duration, or when no worker transmits in it any more.
        over = (left <= step * (1 + _TIME_TOL)) | ~(sending & ~done).any(-1)
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
    """Simulate the uploads of workers that start together at constant powers.

    Equivalent to :func:`scheduled_upload` with one phase.

    Args:
        csi: channels H, (..., L, L), in 1/W.
        power: transmit powers, (..., L), W.
        bits: size Z of one upload, a number, (L,) or (..., L), bits.
        bandwidth_hz: bandwidth B, Hz.
        deadline_s: end of the round, s; None: no deadline.

    Returns:
        Airtimes, bits, powers and SINRs of the uploads.

    >>> csi = torch.tensor([[3.0, 1.0], [1.0, 3.0]], dtype=torch.float64)
    >>> power = torch.tensor([1.0, 1.0], dtype=torch.float64)
    >>> bits = torch.tensor([1.0, 2.0])
    >>> simultaneous_upload(csi, power, bits, bandwidth_hz=1.0).airtime_s
    tensor([0.7565, 1.2565], dtype=torch.float64)
    """
    return scheduled_upload(csi, Schedule.simultaneous(power), bits, bandwidth_hz, deadline_s)


def _last_powers(schedule: Schedule) -> Tensor:
    """Power of every worker in the last phase in which it transmits, (..., L), W; 0 if silent."""
    sends = (schedule.power > 0) & (schedule.durations_s > 0)[..., None]
    numbers = torch.arange(1, sends.shape[-2] + 1, device=sends.device)[:, None]
    last = (sends * numbers).amax(-2, keepdim=True)
    powers = schedule.power.gather(-2, (last - 1).clamp_min(0))[..., 0, :]
    return torch.where(last[..., 0, :] > 0, powers, 0.0)


def _sinr(csi: Tensor, power: Tensor, band_share: Tensor | None) -> Tensor:
    """SINR on the whole band, or SNR on the exclusive share of each worker, (..., L), linear."""
    if band_share is None:
        return sinr_of(csi, power)
    return csi.diagonal(dim1=-2, dim2=-1) * power / band_share


def power_alone(
    gain: Tensor, pmax_w: Tensor, static_power_w: Tensor, seconds_per_joule: float
) -> Tensor:
    """Power p ≤ Pmax of a worker alone that minimises (1 + κ (p + P_c)) / ln(1 + α p).

    It is the most efficient power for a static power of P_c + 1/κ, and Pmax for κ = 0.

    Args:
        gain: SNR per watt α on the worker's share of the band, (..., L), in 1/W.
        pmax_w: Pmax, () or (L,), W.
        static_power_w: static power P_c, () or (L,), W.
        seconds_per_joule: price of energy κ ≥ 0, s/J.

    Returns:
        Powers, (..., L), W.
    """
    limit = pmax_w.to(gain).expand(gain.shape)
    if seconds_per_joule == 0:
        return limit
    best = most_efficient_power(gain, static_power_w + 1 / seconds_per_joule)
    return torch.minimum(best.to(gain), limit)
