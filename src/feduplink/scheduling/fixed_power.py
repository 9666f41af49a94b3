"""The best fixed power vector of a round: all workers start together and stop when complete.

Time and energy of such a round are continuous functions of the log-powers. They are not convex, and
not differentiable where two workers finish at the same time. The search is a gradient descent on
the exact round from several starting points; the best point visited is the result.
"""

from __future__ import annotations

import torch
from torch import Tensor

from feduplink import link
from feduplink.link import Schedule
from feduplink.scenario import Scenario
from feduplink.scheduling.column_generation import check_rounds, demand_of

#: Number of descent steps, and length of the first in ln p; it decays to a hundredth.
_STEPS = 150
_FIRST_STEP = 0.3
#: Lowest power relative to Pmax.
_MIN_RELATIVE_POWER = 1e-7
#: Fractions of path loss compensation at the starting points; 0 is full power for all workers.
_COMPENSATION_FRACTIONS = (0.0, 0.5, 1.0)
#: Channels per batch.
_BATCH_SIZE = 1024


def find_fixed_powers(
    scenario: Scenario,
    csi: Tensor,
    bits: float | Tensor,
    *,
    seconds_per_joule: float = 0.0,
    senders: Tensor | None = None,
) -> Schedule:
    """Find powers that minimise time + κ · energy if every worker keeps its power until it is done.

    Args:
        scenario: the radio.
        csi: H, (N, L, L), linear, relative to the noise power.
        bits: Z of an upload, a scalar or (L,).
        seconds_per_joule: κ ≥ 0, s/J; 0 minimises the time.
        senders: workers that take part, (N, L) bool; None: all.

    Returns:
        A schedule of one phase per channel.

    Raises:
        InputError: if ``csi`` is not (N, L, L), or κ is negative or not finite.
    """
    check_rounds(csi, [seconds_per_joule])
    takes_part = demand_of(scenario, csi, bits, senders) > 0
    parts = [
        _descend(scenario, csi[rows].double(), bits, seconds_per_joule, takes_part[rows])
        for rows in (slice(first, first + _BATCH_SIZE) for first in range(0, len(csi), _BATCH_SIZE))
    ]
    return Schedule.simultaneous(torch.cat(parts))


def _descend(
    scenario: Scenario, csi: Tensor, bits: float | Tensor, kappa: float, takes_part: Tensor
) -> Tensor:
    """Best powers visited by gradient descent from all starting points, (N, L) W."""
    highest = scenario.max_power.to(csi).expand(takes_part.shape).log()
    starts = [
        _compensated_log_power(csi, highest, takes_part, share) for share in _COMPENSATION_FRACTIONS
    ]
    position = torch.stack(starts).requires_grad_()
    lowest = highest + torch.tensor(_MIN_RELATIVE_POWER, dtype=csi.dtype).log()
    optimiser = torch.optim.Adam([position], lr=_FIRST_STEP)
    decay = torch.optim.lr_scheduler.ExponentialLR(optimiser, 0.01 ** (1 / _STEPS))
    best = torch.full(position.shape[:-1], torch.inf, dtype=csi.dtype, device=csi.device)
    found = position.detach().clone()
    static_power = scenario.static_power.to(csi)
    for _ in range(_STEPS):
        power = torch.where(takes_part, position.exp(), 0.0)
        upload = link.simultaneous_upload(csi, power, bits, scenario.bandwidth_hz)
        energy_j = link.energy(power, upload.airtime_s, bits, static_power)
        cost = upload.duration_s + kappa * energy_j.sum(-1)
        better = cost.detach() < best
        best = torch.where(better, cost.detach(), best)
        found = torch.where(better[..., None], position.detach(), found)
        optimiser.zero_grad()
        # Relative costs, so that step lengths do not depend on the duration of the round.
        (cost / cost.detach()).sum().backward()
        optimiser.step()
        decay.step()
        with torch.no_grad():
            position.copy_(torch.minimum(torch.maximum(position, lowest), highest))
    start = best.argmin(0)
    chosen = found.gather(0, start[None, :, None].expand(1, *found.shape[1:]))[0]
    return torch.where(takes_part, torch.minimum(chosen, highest).exp(), 0.0)


def _compensated_log_power(
    csi: Tensor, highest: Tensor, takes_part: Tensor, share: float
) -> Tensor:
    """ln p with fractional path loss compensation ``share``, the weakest worker at Pmax, (N, L)."""
    received = csi.diagonal(dim1=-2, dim2=-1).log() + highest
    weakest = torch.where(takes_part, received, torch.inf).amin(-1, keepdim=True)
    return torch.minimum(highest, highest + share * (weakest - received))
