"""``orth``: optimal where nobody interferes, then selection."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from feduplink.policies.selection import SelectingPolicy


class Orthogonal(SelectingPolicy):
    """p_i = min(Pmax, P_E,i), then one-shot selection.

    P_E,i is the largest power with EE_i ≥ e0 when nobody else is on the air.
    """

    name = "orth"
    summary = "best powers without interference; who would miss a threshold stays silent"
    by_default = True
    colour, marker = "#E69F00", "^"

    def candidate_powers(self, csi: Tensor) -> Tensor:
        """min(Pmax, P_E) of all workers, (N, L, L) to (N, L), W."""
        direct = csi.diagonal(dim1=-2, dim2=-1)
        limit = largest_efficient_power(
            direct,
            torch.as_tensor(self.scenario.ee_min, dtype=torch.float64),
            self.scenario.static_power,
            self.scenario.amplifier_inefficiency,
        )
        return torch.minimum(limit, self.scenario.pmax_w.to(limit))


class UnselectedOrthogonal(Orthogonal):
    """``orth`` in the reading of the paper's code: nobody is silenced."""

    name = "orth:unselected"
    summary = "best powers without interference, and everyone sends"
    selects = False


def largest_efficient_power(
    direct_gain: Tensor, ee_min: Tensor, static_power_w: Tensor, amplifier_inefficiency: float
) -> Tensor:
    """Largest p with ln(1 + α p) ≥ e0 (μ p + P_c), W; 0 if there is none, ∞ if e0 = 0.

    With u = 1 + α p and c = e0 μ / α the equality reads −c u e^(−c u) = −c e^(e0 P_c − c); its
    larger root is the lower branch of Lambert's function, u = −W₋₁(−c e^(e0 P_c − c)) / c.
    """
    # Here: it takes a fifth of a second to import, and no other policy needs it.
    from scipy.special import lambertw

    alpha = direct_gain.detach().cpu().double().numpy()
    e0 = ee_min.numpy()
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        c = e0 * amplifier_inefficiency / alpha
        argument = -c * np.exp(e0 * static_power_w.numpy() - c)
        # For c ≥ 1 the efficiency only falls with p; under −1/e there is no intersection.
        solvable = (c < 1) & (argument >= -np.exp(-1.0))
        root = -lambertw(np.where(solvable, argument, -0.1), k=-1).real / c
        power = np.where(solvable, (root - 1) / alpha, 0.0)
    power = np.where(e0 == 0, np.inf, power)
    return torch.from_numpy(np.clip(power, 0.0, None)).to(direct_gain)
