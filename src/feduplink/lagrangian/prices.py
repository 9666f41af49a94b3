"""What success, rate and efficiency are worth in the Lagrangian of one channel.

With multipliers μ on the rate and ν on the energy efficiency, the Lagrangian of a channel is

    Σ_i ω_i f_i + 1(p_i > 0) [μ_i (R_i − r0_i) + ν_i (EE_i − e0_i)],

because E[R_i | p_i > 0] ≥ r0_i is the same as E[1(p_i > 0) (R_i − r0_i)] ≥ 0. For every shipped
objective f (packet success, rate or energy efficiency) this is

    Σ_i a_i PSR_i + b_i R_i + c_i EE_i − 1(p_i > 0) d_i

with prices a, b, c ≥ 0 and a fee d ≥ 0 for being on the air.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from feduplink.scenario import Scenario


@dataclass(frozen=True)
class Prices:
    """Prices of one unit of each quantity, (L,) each, all ≥ 0.

    Attributes:
        success: a, on the packet success rate.
        rate: b, on the rate in nats/s/Hz.
        efficiency: c, on the energy efficiency in nats/s/Hz/W.
        fee: d, what being on the air costs.
    """

    success: Tensor
    rate: Tensor
    efficiency: Tensor
    fee: Tensor

    @classmethod
    def of(cls, scenario: Scenario, multipliers: Tensor, worth: Tensor) -> Prices:
        """Prices for multipliers (μ, ν), (2, L), and the worth of the objective, (L,)."""
        mu, nu = multipliers
        worth = worth.to(mu)
        nothing = torch.zeros_like(mu)
        objective = scenario.objective
        return cls(
            success=worth if objective == "psr" else nothing,
            rate=mu + worth if objective == "rate" else mu,
            efficiency=nu + worth if objective == "energy_efficiency" else nu,
            fee=mu * scenario.rate_thresholds.to(mu) + nu * scenario.ee_thresholds.to(nu),
        )

    def to(self, dtype: torch.dtype) -> Prices:
        """The same prices in another precision."""
        return Prices(*(price.to(dtype) for price in vars(self).values()))


@dataclass(frozen=True)
class Multipliers:
    """A point of the dual problem.

    Attributes:
        constraints: (μ, ν), (2, L): per nats/s/Hz and per nats/s/Hz/W.
        worth: what one unit of the objective's inner function is worth, (L,); ω or ∇g(y).
    """

    constraints: Tensor
    worth: Tensor

    def to(self, device: torch.device) -> Multipliers:
        """The same multipliers on a device."""
        return Multipliers(self.constraints.to(device), self.worth.to(device))

    def prices(self, scenario: Scenario) -> Prices:
        """The prices of the channel-by-channel problem."""
        return Prices.of(scenario, self.constraints, self.worth)
