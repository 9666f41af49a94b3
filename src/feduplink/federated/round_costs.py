"""What rounds cost in seconds and joules with several senders, on the same channels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from feduplink.channels import noisy_csi
from feduplink.federated.access import Sender, access_scheme
from feduplink.federated.uplink import Rounds, UplinkRules, Uploads, everyone
from feduplink.metrics import finite_or_none
from feduplink.progress import track_each
from feduplink.randomness import torch_generator
from feduplink.scenario import Scenario


@dataclass(frozen=True, repr=False)
class RoundCosts:
    """N rounds with one sender.

    Attributes:
        time_s: from the first bit of a round to its last one, (N,) s.
        energy_j: of all workers, (N,) J.
        success: the probability that a worker's model arrives, (N, L).
        seconds_per_joule: κ, if the sender chose by it.
    """

    time_s: Tensor
    energy_j: Tensor
    success: Tensor
    seconds_per_joule: float | None = None

    @classmethod
    def from_uploads(cls, uploads: Uploads, seconds_per_joule: float | None = None) -> RoundCosts:
        """What uploads took."""
        return cls(uploads.airtime_s, uploads.energy_j, uploads.success, seconds_per_joule)

    def cost(self, seconds_per_joule: float) -> Tensor:
        """time + κ · energy, (N,) s."""
        return self.time_s + seconds_per_joule * self.energy_j

    def as_metrics(self) -> dict[str, Any]:
        """Means and medians, and how often models arrive: of all workers, and of the last one."""
        rates = self.success.mean(0)
        figures = {
            "time_s": self.time_s.mean(),
            "energy_j": self.energy_j.mean(),
            "median_time_s": self.time_s.median(),
            "median_energy_j": self.energy_j.median(),
            "arrivals": rates.sum(),
            "delivery_min": rates.min(),
        }
        entry = {name: finite_or_none(float(value)) for name, value in figures.items()}
        return {"kappa_s_per_j": self.seconds_per_joule, **entry}


def rounds_on(csi: Tensor, scenario: Scenario, *, seed: int = 0) -> Rounds:
    """One round on each of the channels (N, L, L), everyone present."""
    count, workers = csi.shape[:2]
    observed = noisy_csi(csi, scenario.csi_noise, torch_generator(seed, "csi-noise", 0))
    uniform = torch.zeros(count, workers)
    return Rounds(csi, observed, uniform, everyone(count, workers))


def compare_rounds(
    senders: Mapping[str, Sender], rounds: Rounds, rules: UplinkRules
) -> dict[str, RoundCosts]:
    """What the rounds cost with each of the senders, by name."""
    return {
        name: RoundCosts.from_uploads(
            access_scheme(senders[name]).uploads(rounds, rules),
            getattr(senders[name], "seconds_per_joule", None),
        )
        for name in track_each("rounds", list(senders), "policies")
    }
