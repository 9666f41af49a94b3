"""The server's step: aggregation of the models that arrive.

An aggregation of your own is a subclass of :class:`Aggregation`, or of :class:`LinearAverage` if
the next model is a weighted sum. On the command line its name is ``package.module:Class``, or that
of its entry point in the group ``feduplink.aggregations``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from feduplink.errors import InputError
from feduplink.federated.models.stacked import Weights
from feduplink.registry import AGGREGATIONS
from feduplink.storage.tensorfile import object_identity


@dataclass(frozen=True)
class Arrivals:
    """Uploads of a round of a federation, as known by the server; on the CPU.

    Attributes:
        round: number of the round, from 0.
        sizes: k_i, numbers of examples of the workers, (L,) float64.
        present: workers in the federation, (L,) bool.
        arrived: S_i, uploads that were received, (L,) bool.
        success: q_i, probability of S_i = 1 given the channels, (L,) float64; 0 for uploads that
            cannot arrive.

    """

    round: int
    sizes: Tensor
    present: Tensor
    arrived: Tensor
    success: Tensor


class Aggregation(ABC):
    """Rule by which the server computes the next global model.

    One object serves all federations of a comparison and has settings only. What changes from round
    to round (a momentum, moments) is a state per federation, which is part of the checkpoint: a
    resumed federation continues with the same bits.
    """

    def initial_state(self, model: Weights) -> Weights:
        """Return the state before the first round by name; empty by default.

        ``model`` is the first global model, (*shape) per parameter.
        """
        return {}

    @abstractmethod
    def aggregate(
        self, model: Weights, local: Weights, arrivals: Arrivals, state: Weights
    ) -> Weights:
        """Return the next global model, (*shape) per parameter; called if any worker is present.

        Args:
            model: global model before local training, (*shape) per parameter; clone what you keep.
            local: the workers' models after local training, (L, *shape) per parameter. Models that
                did not arrive may contain any values, also NaN.
            arrivals: the uploads.
            state: of this federation; update its entries, in place or not.
        """


class LinearAverage(Aggregation):
    """A weighted sum of models; a subclass computes the coefficients c_i, (L,).

    The next model is Σ_i c_i w_i, or w + Σ_i c_i (w_i − w) with ``of_updates``, where w is the
    global model before local training. If all c_i are zero the model is not changed.
    """

    of_updates: ClassVar[bool] = False

    @abstractmethod
    def coefficients(self, arrivals: Arrivals) -> Tensor:
        """Return c_i, (L,) float64; exactly zero for models to leave out of the sum."""

    def aggregate(
        self, model: Weights, local: Weights, arrivals: Arrivals, state: Weights
    ) -> Weights:
        """Compute one matrix-vector product per parameter."""
        coefficients = self.coefficients(arrivals)
        counted = coefficients.nonzero()[:, 0]
        if len(counted) == 0:
            return model
        everyone = len(counted) == len(coefficients)
        some = next(iter(model.values()))
        factors, rows = coefficients[counted].to(some), counted.to(some.device)
        found = {}
        for name, previous in model.items():
            # Without rows of zero weight, because NaN times zero is NaN.
            sent = local[name] if everyone else local[name][rows]
            if self.of_updates:
                moved = torch.mv((sent - previous).flatten(1).mT, factors)
                found[name] = previous + moved.view_as(previous)
            else:
                found[name] = torch.mv(sent.flatten(1).mT, factors).view_as(previous)
        return found


def find_aggregation(aggregation: str | Aggregation) -> Aggregation:
    """Find an aggregation by its registered name or ``package.module:Object``."""
    if isinstance(aggregation, Aggregation):
        return aggregation
    found: Any = AGGREGATIONS.find(aggregation)
    made = found() if callable(found) else found
    if not isinstance(made, Aggregation):
        raise InputError(
            f"aggregation: {aggregation} is a {type(made).__name__}; accepted: an Aggregation, or "
            "a function without arguments that returns one."
        )
    return made


def aggregation_identity(aggregation: Aggregation, model: Weights) -> dict[str, Any]:
    """Return name, settings and shapes of the state for the header of a checkpoint."""
    state = aggregation.initial_state(model)
    return {**object_identity(aggregation, AGGREGATIONS), "state": _shapes(state)}


@torch.no_grad()
def server_step_(
    aggregation: Aggregation, model: Weights, local: Weights, arrivals: Arrivals, state: Weights
) -> None:
    """Update ``model`` and ``state`` in place; arguments as for :meth:`Aggregation.aggregate`."""
    before = _shapes(state)
    found = aggregation.aggregate(model, local, arrivals, state)
    for what, given, accepted in (("state", state, before), ("model", found, _shapes(model))):
        if _shapes(given) != accepted:
            raise InputError(
                f"aggregation: {AGGREGATIONS.name_of(type(aggregation))} returned a {what} with "
                f"{_shapes(given)}; accepted: {accepted}."
            )
    for name, weight in model.items():
        weight.copy_(found[name])


def _shapes(tensors: Weights) -> dict[str, tuple[int, ...]]:
    return {name: tuple(tensor.shape) for name, tensor in tensors.items()}


class ExactAverage(LinearAverage):
    """The average of the paper: c_i = k_i S_i / Σ_j k_j S_j; all zero without arrivals."""

    def coefficients(self, arrivals: Arrivals) -> Tensor:
        """Return coefficients that add up to 1, or to 0 without arrivals."""
        return _shares(arrivals.sizes, arrivals.arrived)


class PublishedAverage(LinearAverage):
    """The average of the paper's published code: the exact average with three errors.

    The divisor includes the last arriving worker, but the sum does not, so that the global model
    shrinks. With a single arrival the model is multiplied by its k_i. In the first round every
    worker counts as arrived. It serves only to reproduce the federated curves of the paper.
    """

    def coefficients(self, arrivals: Arrivals) -> Tensor:
        """Return coefficients that need not add up to 1."""
        arrived = arrivals.present if arrivals.round == 0 else arrivals.arrived
        count, rank = arrived.sum(), arrived.cumsum(-1)
        last = arrived & (rank == count)
        exact = _shares(arrivals.sizes, arrived)
        return torch.where(count == 1, arrivals.sizes * arrived, torch.where(last, 0.0, exact))


class UnbiasedAverage(LinearAverage):
    """Unbiased estimate of the average of all transmitted models: updates weighted by 1/PSR.

    The next model is w + Σ_i c_i (w_i − w) with c_i = (k_i / K) S_i / q_i, where q_i = P(S_i = 1)
    and K = Σ_j k_j over the workers with q_j > 0. Since E[S_i / q_i] = 1 its expectation is
    Σ_i k_i w_i / K, the average without losses. The exact average is biased: it divides by the
    sizes of the arrivals, and includes workers on good channels more often.

    Σ_i c_i w_i has the same expectation, but its coefficients do not add up to 1 in every round, so
    that the whole model grows and shrinks. An arrival with q_i near zero counts 1/q_i times, which
    increases the variance. Workers that cannot arrive (silent, absent, or too slow for the
    deadline) are left out, since no weight compensates for them.
    """

    of_updates: ClassVar[bool] = True

    def coefficients(self, arrivals: Arrivals) -> Tensor:
        """Return coefficients that add up to 1 on average."""
        able = arrivals.success > 0
        chance = torch.where(able, arrivals.success, 1.0)
        return _shares(arrivals.sizes, able) * arrivals.arrived / chance


def _shares(sizes: Tensor, counted: Tensor) -> Tensor:
    """Return k_i / Σ_j k_j over the workers that are ``counted``, (L,); 0 for the others.

    >>> _shares(torch.tensor([1.0, 2.0, 3.0]), torch.tensor([True, False, True]))
    tensor([0.2500, 0.0000, 0.7500])
    """
    heard = sizes * counted
    total = heard.sum()
    return torch.where(total > 0, heard / total, 0.0)
