"""Training on sampled subsets of the workers, for policies that take any number of them.

Whoever is not in a batch's subset is silent in it. The SINR of the others is then that of the
principal submatrix of H, and the problem, with its weights and thresholds by worker, stays as it
is.
"""

from __future__ import annotations

import torch
from torch import Tensor

from feduplink.errors import InputError
from feduplink.policies.base import NeuralPolicy


def check_subset_size(size: int | None, policy: NeuralPolicy) -> None:
    """Refuse subsets for a policy of fixed size, and those larger than the cell."""
    if size is None:
        return
    if policy.fixed_workers is not None:
        raise InputError(
            f"subset_workers: {policy.name} takes exactly {policy.fixed_workers} workers; "
            "accepted: none, or a policy that takes any number, such as pdg."
        )
    if size > policy.scenario.workers:
        raise InputError(
            f"subset_workers: {size} of {policy.scenario.workers} workers; accepted: none, or 1 "
            f"to {policy.scenario.workers}."
        )


def draw_subset(size: int, workers: int, generator: torch.Generator) -> Tensor:
    """``size`` of ``workers`` indices, each subset equally likely, in ascending order."""
    return torch.randperm(workers, generator=generator)[:size].sort().values


def subset_powers(policy: NeuralPolicy, csi: Tensor, subset: Tensor) -> Tensor:
    """Powers for the principal submatrix of the ``subset``, 0 W for the others.

    (N, L, L) and (K,) indices to (N, L), W; differentiable.
    """
    power: Tensor = policy(csi[:, subset[:, None], subset])
    return power.new_zeros(csi.shape[:-1]).index_copy(-1, subset, power)
