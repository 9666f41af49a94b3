"""An average of your own: updates weighted by 1/PSR, so that the expected model is that of all.

    feduplink federate --aggregation unbiased_average:Unbiased --policies ideal,max,openloop

in the directory of this file. It ships as well, as ``--aggregation unbiased``.
"""

import torch
from torch import Tensor

from feduplink.federated import Arrivals, LinearAverage


class Unbiased(LinearAverage):
    """w ← w + Σ_i c_i (w_i − w) with c_i = (k_i / Σ_j k_j) S_i / q_i and E[S_i] = q_i.

    The expectation is Σ_i k_i w_i / Σ_j k_j, as if nothing were ever lost; the price is variance.
    Workers that cannot arrive, q_i = 0, are left out of both sums: no weight makes up for them.
    """

    of_updates = True

    def coefficients(self, arrivals: Arrivals) -> Tensor:
        """c_i, (L,)."""
        counted = arrivals.sizes * (arrivals.success > 0)
        weights = torch.where(arrivals.arrived, 1 / arrivals.success, 0.0)
        return counted / counted.sum().clamp_min(1) * weights
