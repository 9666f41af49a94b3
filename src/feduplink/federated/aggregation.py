"""The server's average of the models that arrived.

Both averages are linear, so each is a rule for the coefficient of every worker's model; the
arithmetic on the models is one product, :func:`combine_`.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from feduplink.federated.models.stacked import Weights

Aggregation = Literal["exact", "published"]


def coefficients(sizes: Tensor, arrived: Tensor, aggregation: Aggregation) -> Tensor:
    """Coefficients of the workers' models, (..., L).

    Args:
        sizes: k_i, (..., L).
        arrived: S_i, (..., L) bool.
        aggregation: ``exact`` or ``published``.

    """
    rule = exact_coefficients if aggregation == "exact" else published_coefficients
    return rule(sizes, arrived)


def exact_coefficients(sizes: Tensor, arrived: Tensor) -> Tensor:
    """k_i S_i / Σ_j k_j S_j; all zero if nothing arrived.

    >>> exact_coefficients(torch.tensor([1.0, 2.0, 3.0]), torch.tensor([True, False, True]))
    tensor([0.2500, 0.0000, 0.7500])
    """
    heard = sizes * arrived
    total = heard.sum(-1, keepdim=True)
    return torch.where(total > 0, heard / total, 0.0)


def published_coefficients(sizes: Tensor, arrived: Tensor) -> Tensor:
    """What the paper's published code computes: :func:`exact_coefficients` with two slips.

    The last arriving worker counts in the divisor but its model is left out, so the global model
    shrinks. With a single arrival nothing is divided: the model is multiplied by its k_i.
    Only for showing that the paper's federated curves come out of it.

    >>> published_coefficients(torch.tensor([1.0, 2.0, 3.0]), torch.tensor([True] * 3)).sum()
    tensor(0.5000)
    """
    exact = exact_coefficients(sizes, arrived)
    count = arrived.sum(-1, keepdim=True)
    rank = arrived.cumsum(-1)
    last = arrived & (rank == count)
    return torch.where(count == 1, sizes * arrived, torch.where(last, 0.0, exact))


def combine_(previous: Weights, coefficients: Tensor, local: Weights) -> None:
    """Replace every lane's global model by Σ_i c_i w_i; where all c_i are zero it stays.

    ``previous`` (lanes, *shape) and ``local`` (lanes, L, *shape) by parameter, ``coefficients``
    (lanes, L) on the CPU.
    """
    for lane, factors in enumerate(coefficients):
        # A model that did not arrive may hold anything, also NaN; it must not touch the sum.
        counted = factors.nonzero()[:, 0]
        if len(counted) == 0:
            continue
        everyone = len(counted) == len(factors)
        some = next(iter(previous.values()))
        heard, rows = factors[counted].to(some), counted.to(some.device)
        for name, model in previous.items():
            models = local[name][lane].flatten(1)  # (L, n)
            sent = models if everyone else models[rows]
            torch.mv(sent.mT, heard, out=model[lane].view(-1))
