"""``max``: everyone at full power."""

from __future__ import annotations

from torch import Tensor

from feduplink.policies.base import Policy


class FullPower(Policy):
    """p_i = Pmax for every worker."""

    name = "max"
    summary = "everyone at full power"
    by_default = True
    colour, marker = "#8C510A", "s"

    def powers(self, csi: Tensor) -> Tensor:
        """Pmax for all, (N, L, L) to (N, L), W."""
        return self.scenario.pmax_w.to(csi).expand(csi.shape[:-1])
