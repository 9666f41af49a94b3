"""Server step of a federation: aggregation of the models that arrive.

A user-defined aggregation is a subclass of :class:`Aggregation`, or of :class:`LinearAverage` if
the next model is a weighted sum. Its name on the command line is ``package.module:Class``, or that
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
    """Uploads of a round as known to the server; all tensors are on the CPU.

    Attributes:
        round: index of the round, from 0.
        sizes: number of examples k_i of each worker, (L,) float64.
        present: workers in the federation, (L,) bool.
        arrived: arrivals S_i, (L,) bool.
        success: probability q_i of S_i = 1 given the channels, (L,) float64; 0 for uploads that
            cannot arrive.

    """

    round: int
    sizes: Tensor
    present: Tensor
    arrived: Tensor
    success: Tensor


class Aggregation(ABC):
    """Abstract base class of rules by which the server computes the next global model.

    An object has settings only and serves all federations of a comparison. Variables that change
    from round to round, such as a momentum, are in a state per federation, which checkpoints
    contain. A subclass implements :meth:`aggregate`, and :meth:`initial_state` if it has a state.
    """

    def initial_state(self, model: Weights) -> Weights:
        """Make the state before the first round.

        Args:
            model: initial global model, (*shape) per parameter.

        Returns:
            Tensors by name; none by default.
        """
        return {}

    @abstractmethod
    def aggregate(
        self, model: Weights, local: Weights, arrivals: Arrivals, state: Weights
    ) -> Weights:
        """Compute the next global model; called if at least one worker is present.

        Args:
            model: global model before local training, (*shape) per parameter; it is overwritten
                afterwards, so clone tensors that the state keeps.
            local: workers' models after local training, (L, *shape) per parameter. Models that did
                not arrive may contain any values, including NaN.
            arrivals: uploads of the round.
            state: state of this federation, whose entries the method may replace or modify.

        Returns:
            Next global model, (*shape) per parameter.
        """


class LinearAverage(Aggregation):
    """Abstract base class of weighted sums of the workers' models.

    The next model is Σ_i c_i w_i, or w + Σ_i c_i (w_i − w) with ``of_updates``, where w is the
    global model before local training. If all c_i are zero, the model does not change. A subclass
    implements :meth:`coefficients`.

    Attributes:
        of_updates: whether updates w_i − w are summed instead of models.
    """

    of_updates: ClassVar[bool] = False

    @abstractmethod
    def coefficients(self, arrivals: Arrivals) -> Tensor:
        """Compute the coefficients c_i, (L,) float64; exactly zero excludes a model."""

    def aggregate(
        self, model: Weights, local: Weights, arrivals: Arrivals, state: Weights
    ) -> Weights:
        """Compute the next global model with one matrix–vector product per parameter."""
        coefficients = self.coefficients(arrivals)
        counted = coefficients.nonzero()[:, 0]
        if len(counted) == 0:
            return model
        everyone = len(counted) == len(coefficients)
        some = next(iter(model.values()))
        factors, rows = coefficients[counted].to(some), counted.to(some.device)
        found = {}
        for name, previous in model.items():
            # Exclude rows of zero weight, because they may be NaN, and 0 · NaN is NaN.
            sent = local[name] if everyone else local[name][rows]
            if self.of_updates:
                moved = torch.mv((sent - previous).flatten(1).mT, factors)
                found[name] = previous + moved.view_as(previous)
            else:
                found[name] = torch.mv(sent.flatten(1).mT, factors).view_as(previous)
        return found


def find_aggregation(aggregation: str | Aggregation) -> Aggregation:
    """Look up an aggregation.

    Args:
        aggregation: registered name, ``package.module:Object``, or an aggregation, which is
            returned.

    Raises:
        InputError: if the name is unknown or the object is not an aggregation.

    >>> type(find_aggregation("exact")).__name__
    'ExactAverage'
    """
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
    """Name, settings and shapes of the state of an aggregation, JSON-compatible."""
    state = aggregation.initial_state(model)
    return {**object_identity(aggregation, AGGREGATIONS), "state": _shapes(state)}


@torch.no_grad()
def server_step_(
    aggregation: Aggregation, model: Weights, local: Weights, arrivals: Arrivals, state: Weights
) -> None:
    """Update a global model and the server's state in place.

    Arguments are those of :meth:`Aggregation.aggregate`.

    Raises:
        InputError: if the aggregation returns or leaves tensors of other names or shapes.
    """
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
    """Average of the arrived models, c_i = k_i S_i / Σ_j k_j S_j, as in the paper.

    >>> sizes, arrived = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([True, False, True])
    >>> everyone = torch.ones(3, dtype=torch.bool)
    >>> ExactAverage().coefficients(Arrivals(0, sizes, everyone, arrived, arrived.double()))
    tensor([0.2500, 0.0000, 0.7500])
    """

    def coefficients(self, arrivals: Arrivals) -> Tensor:
        """Compute c_i, (L,), with sum 1, or 0 without arrivals."""
        return _shares(arrivals.sizes, arrivals.arrived)


class PublishedAverage(LinearAverage):
    """Average of the paper's published code, which deviates from :class:`ExactAverage`.

    The divisor includes the last arriving worker, but the sum does not, so that the global model
    shrinks. A single arriving model is multiplied by its k_i. In the first round every worker
    present counts as arrived. Use it only to reproduce the federated curves of the paper.
    """

    def coefficients(self, arrivals: Arrivals) -> Tensor:
        """Compute c_i, (L,), whose sum is in general not 1."""
        arrived = arrivals.present if arrivals.round == 0 else arrivals.arrived
        count, rank = arrived.sum(), arrived.cumsum(-1)
        last = arrived & (rank == count)
        exact = _shares(arrivals.sizes, arrived)
        return torch.where(count == 1, arrivals.sizes * arrived, torch.where(last, 0.0, exact))


class UnbiasedAverage(LinearAverage):
    """Unbiased estimate of the loss-free average, with updates weighted by 1/q_i.

    The next model is w + Σ_i c_i (w_i − w) with c_i = (k_i / K) S_i / q_i, where q_i = P(S_i = 1)
    and K = Σ_j k_j over the workers with q_j > 0. Since E[S_i / q_i] = 1, its expectation is
    Σ_i k_i w_i / K. The exact average is biased towards workers with good channels.

    Summing updates instead of models keeps the scale of the model although Σ_i c_i ≠ 1 in general.
    Small q_i increase the variance. Workers with q_i = 0 (silent, absent or late) are excluded.
    """

    of_updates: ClassVar[bool] = True

    def coefficients(self, arrivals: Arrivals) -> Tensor:
        """Compute c_i, (L,), whose sum has expectation 1."""
        able = arrivals.success > 0
        chance = torch.where(able, arrivals.success, 1.0)
        return _shares(arrivals.sizes, able) * arrivals.arrived / chance


def _shares(sizes: Tensor, counted: Tensor) -> Tensor:
    """Compute k_i / Σ_j k_j over the ``counted`` workers, (L,); 0 for the others.

    >>> _shares(torch.tensor([1.0, 2.0, 3.0]), torch.tensor([True, False, True]))
    tensor([0.2500, 0.0000, 0.7500])
    """
    included = sizes * counted
    total = included.sum()
    return torch.where(total > 0, included / total, 0.0)
