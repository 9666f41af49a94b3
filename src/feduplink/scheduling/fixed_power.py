"""The best round of radios that keep their power: one vector, all start together, finishers leave.

Time and energy of such a round are continuous functions of the log-powers, with kinks where two
workers finish together, and neither convex nor smooth; with frozen SINRs they would be convex. So
the search is a descent from several starts along the slopes of the exact round, and the best point
it passes counts.
"""

from __future__ import annotations

import torch
from torch import Tensor

from feduplink import link
from feduplink.link import Schedule
from feduplink.scenario import Scenario
from feduplink.scheduling.column_generation import check_rounds, demand_of

#: Steps of the descent, and the largest in ln p: it shrinks to a hundredth on the way.
_STEPS = 150
_LONGEST_STEP = 0.3
#: Powers stay above this share of Pmax.
_LOWEST = 1e-7
#: Compensation of the path loss, from full power to everyone received alike.
_COMPENSATION = (0.0, 0.5, 1.0)
#: Channels at once.
_CHUNK = 1024


def find_fixed_powers(
    scenario: Scenario,
    csi: Tensor,
    bits: float | Tensor,
    *,
    seconds_per_joule: float = 0.0,
    senders: Tensor | None = None,
) -> Schedule:
    """Powers of least time + κ · energy for channels (N, L, L), as schedules of one phase.

    Arguments are those of :func:`~feduplink.scheduling.find_schedules`.
    """
    check_rounds(csi, [seconds_per_joule])
    takes_part = demand_of(scenario, csi, bits, senders) > 0
    parts = [
        _descend(scenario, csi[rows].double(), bits, seconds_per_joule, takes_part[rows])
        for rows in (slice(first, first + _CHUNK) for first in range(0, len(csi), _CHUNK))
    ]
    return Schedule.simultaneous(torch.cat(parts))


def _descend(
    scenario: Scenario, csi: Tensor, bits: float | Tensor, kappa: float, takes_part: Tensor
) -> Tensor:
    """The best powers (N, L) W on the way down from all starts."""
    highest = scenario.max_power.to(csi).expand(takes_part.shape).log()
    starts = [_received_alike(csi, highest, takes_part, share) for share in _COMPENSATION]
    position = torch.stack(starts).requires_grad_()
    lowest = highest + torch.tensor(_LOWEST, dtype=csi.dtype).log()
    optimiser = torch.optim.Adam([position], lr=_LONGEST_STEP)
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
        # Relative costs: a slow round does not need longer steps than a quick one.
        (cost / cost.detach()).sum().backward()
        optimiser.step()
        decay.step()
        with torch.no_grad():
            position.copy_(torch.minimum(torch.maximum(position, lowest), highest))
    start = best.argmin(0)
    chosen = found.gather(0, start[None, :, None].expand(1, *found.shape[1:]))[0]
    return torch.where(takes_part, torch.minimum(chosen, highest).exp(), 0.0)


def _received_alike(csi: Tensor, highest: Tensor, takes_part: Tensor, share: float) -> Tensor:
    """ln p with a share of the differences in gain compensated, the weakest at Pmax, (N, L)."""
    received = csi.diagonal(dim1=-2, dim2=-1).log() + highest
    weakest = torch.where(takes_part, received, torch.inf).amin(-1, keepdim=True)
    return torch.minimum(highest, highest + share * (weakest - received))
