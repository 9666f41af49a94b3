"""What a schedule is asked for, and its phases for the body of an answer.

``{"csi": H, "bits": Z, "kappa": κ}`` with H (L, L) or (N, L, L), answered by ``{"phases": [...]}``,
for several channels one such list each. A phase has its duration in s and the powers of all workers
in W; a worker at power 0 is silent in it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from pydantic_core import to_json

from feduplink.errors import InputError
from feduplink.link import Schedule
from feduplink.scenario import Scenario
from feduplink.scheduling import learned_schedules, shipped_phase_network
from feduplink.serving.csi_payload import Array, checked_csi, json_object
from feduplink.serving.limits import Limits

#: Most bits of a model, and most seconds that a joule is worth.
MOST_BITS, MOST_KAPPA = 1e15, 1e6
#: N·L·L·L of a request at most: some seconds of work, which nothing can interrupt.
_MOST_WORK = 2**20
_ACCEPTED = '{"csi": H, "bits": Z} and perhaps "kappa": κ, s/J'


@dataclass(frozen=True)
class ScheduleRequest:
    """Channels (L, L) or (N, L, L), bits of a model, and κ in s/J."""

    csi: Array
    bits: float
    kappa: float

    @classmethod
    def from_json(cls, body: bytes, limits: Limits, scenario: Scenario) -> ScheduleRequest:
        """That of a JSON body, checked, also against the radios of the scenario."""
        content = json_object(body, {"csi", "bits"}, {"kappa"}, _ACCEPTED)
        csi = checked_csi(content["csi"], limits)
        workers, channels = csi.shape[-1], csi[..., 0, 0].size
        if channels * workers**3 > _MOST_WORK:
            raise InputError(
                f"csi: {channels} channels of {workers} workers; accepted for schedules: channels "
                f"times workers cubed up to {_MOST_WORK}."
            )
        if scenario.pmax_w.ndim + scenario.static_power.ndim and workers != scenario.workers:
            raise InputError(f"csi: {workers} workers; accepted here: exactly {scenario.workers}.")
        bits = _number(content["bits"], "bits", MOST_BITS)
        if bits == 0:
            raise InputError(f"bits: 0; accepted: above 0, up to {MOST_BITS:g}.")
        return cls(csi, bits, _number(content.get("kappa", 0.0), "kappa", MOST_KAPPA))


def answered(request: ScheduleRequest, scenario: Scenario) -> bytes:
    """The phases of learned schedules, as JSON; those that take no time are left out."""
    csi = torch.from_numpy(request.csi.reshape(-1, *request.csi.shape[-2:]))
    apart = InputError("csi: gains too far apart to compute with; accepted: closer ones.")
    network = shipped_phase_network()
    try:
        with np.errstate(all="ignore"):  # what comes of it is looked at
            schedule = learned_schedules(
                network, scenario, csi, request.bits, seconds_per_joule=request.kappa
            )
    except (RuntimeError, np.linalg.LinAlgError):  # no inverse
        raise apart from None
    schedule = schedule.limited(scenario.pmax_w)
    if not bool(schedule.durations_s.isfinite().all() and schedule.senders.all()):
        raise apart
    found = [_phases(schedule.take(slice(n, n + 1))) for n in range(len(csi))]
    return to_json({"phases": found if request.csi.ndim == 3 else found[0]})


def _phases(schedule: Schedule) -> list[dict[str, Any]]:
    return [
        {"duration_s": duration, "power_w": powers}
        for duration, powers in zip(
            schedule.durations_s[0].tolist(), schedule.power[0].tolist(), strict=True
        )
        if duration > 0
    ]


def _number(value: Any, name: str, most: float) -> float:
    if type(value) not in (int, float) or not 0 <= value <= most:
        raise InputError(f"{name}: not accepted; accepted: a number from 0 to {most:g}.")
    return float(value)
