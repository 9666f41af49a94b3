"""``max``: everyone at full power."""

from __future__ import annotations

from torch import Tensor

from feduplink.policies.base import Policy


class FullPower(Policy):
    """p_i = Pmax for every worker."""

    name = "max"

    def powers(self, csi: Tensor) -> Tensor:
        """Pmax for all, (N, L, L) to (N, L), W."""
        return csi.new_full(csi.shape[:-1], self.scenario.pmax_w)
