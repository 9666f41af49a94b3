"""The shipped averages of the models that arrive, each a rule for the workers' coefficients."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from feduplink.federated.server_step import Arrivals, LinearAverage


class ExactAverage(LinearAverage):
    """The average that the paper states: c_i = k_i S_i / Σ_j k_j S_j; all zero without arrivals."""

    def coefficients(self, arrivals: Arrivals) -> Tensor:
        """They add up to 1, or to 0 if nothing arrived."""
        return _shares(arrivals.sizes, arrivals.arrived)


class PublishedAverage(LinearAverage):
    """What the paper's published code computes: the exact average with three slips.

    The last arriving worker counts in the divisor but its model is left out, so the global model
    shrinks. With a single arrival nothing is divided: the model is multiplied by its k_i. In the
    first round every worker counts as arrived. Only for showing that the paper's federated curves
    come out of it.
    """

    def coefficients(self, arrivals: Arrivals) -> Tensor:
        """They need not add up to 1."""
        arrived = arrivals.present if arrivals.round == 0 else arrivals.arrived
        count, rank = arrived.sum(), arrived.cumsum(-1)
        last = arrived & (rank == count)
        exact = _shares(arrivals.sizes, arrived)
        return torch.where(count == 1, arrivals.sizes * arrived, torch.where(last, 0.0, exact))


class UnbiasedAverage(LinearAverage):
    """An average whose expectation is that of all senders: updates weighted by 1/PSR.

    The next model is w + Σ_i c_i (w_i − w) with c_i = (k_i / K) S_i / q_i, where q_i = P(S_i = 1)
    and K = Σ_j k_j over the workers that can arrive, q_j > 0. Since E[S_i / q_i] = 1 its
    expectation is Σ_i k_i w_i / K: the average of all senders, as if nothing were ever lost. The
    exact average is not unbiased: it divides by what happened to arrive, and counts workers on
    good channels more often.

    Averaging updates instead of models matters. Σ_i c_i w_i has the same expectation, but its
    coefficients add up to another number in every round, and the whole model grows and shrinks
    with it. The price of no bias is variance: an arrival with q_i near zero counts 1/q_i times.
    Workers that cannot arrive (silent, absent, or too slow for the deadline) are left out, since
    no weight makes up for them.
    """

    of_updates: ClassVar[bool] = True

    def coefficients(self, arrivals: Arrivals) -> Tensor:
        """They add up to 1 on average."""
        able = arrivals.success > 0
        chance = torch.where(able, arrivals.success, 1.0)
        return _shares(arrivals.sizes, able) * arrivals.arrived / chance


def _shares(sizes: Tensor, counted: Tensor) -> Tensor:
    """k_i / Σ_j k_j over the workers that are ``counted``, (L,); 0 for the others.

    >>> _shares(torch.tensor([1.0, 2.0, 3.0]), torch.tensor([True, False, True]))
    tensor([0.2500, 0.0000, 0.7500])
    """
    heard = sizes * counted
    total = heard.sum()
    return torch.where(total > 0, heard / total, 0.0)
