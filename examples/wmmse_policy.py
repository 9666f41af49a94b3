"""A policy of your own: weighted MMSE, the usual way to a large weighted sum of rates.

    feduplink evaluate --policies max,wmmse_policy:Wmmse --objective rate

in the directory of this file. Everything else works by itself: tables, figures, federations,
saving and loading.
"""

import torch
from torch import Tensor

from feduplink import PowerPolicy


class Wmmse(PowerPolicy):
    """The iterations of Shi, Razaviyayn, Luo and He (2011), all channels at once."""

    name = "wmmse"

    def powers(self, csi: Tensor) -> Tensor:
        """Powers in W, (N, L, L) to (N, L)."""
        weights = self.scenario.worker_weights.to(csi)
        limit = self.scenario.max_power.to(csi).sqrt()
        gain = csi.diagonal(dim1=-2, dim2=-1).sqrt()
        v = limit.expand(csi.shape[:-1])
        for _ in range(100):
            u = gain * v / (1 + (csi @ v.square()[..., None])[..., 0])
            w = weights / (1 - u * gain * v)
            v = w * u * gain / (csi.mT @ (w * u.square())[..., None])[..., 0]
            v = torch.minimum(v, limit)
        return v.square()
