"""The server's step: aggregation of the models that arrive.

An aggregation of your own is one class: derive from :class:`Aggregation`, or from
:class:`LinearAverage` if the next model is a weighted sum. It is named on the command line as
``package.module:Class``, or by its entry point in the group ``feduplink.aggregations``.
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
    """The uploads of one round of one federation, as the server knows them; on the CPU.

    Attributes:
        round: its number, from 0.
        sizes: k_i, examples per worker, (L,) float64.
        present: workers in the federation, (L,) bool.
        arrived: S_i, uploads that were received, (L,) bool.
        success: q_i, the probability that S_i = 1 given the channels, (L,) float64; 0 for an
            upload that cannot arrive.

    """

    round: int
    sizes: Tensor
    present: Tensor
    arrived: Tensor
    success: Tensor


class Aggregation(ABC):
    """How the server makes the next global model.

    One object serves all federations of a comparison, so it holds settings only; what a server
    remembers from round to round (a momentum, moments) is a state per federation. The state is
    part of the checkpoint, and a resumed federation continues with the same bits.
    """

    def initial_state(self, model: Weights) -> Weights:
        """What is remembered before the first round, by name; nothing unless overridden.

        ``model`` is the first global model, (*shape) per parameter.
        """
        return {}

    @abstractmethod
    def aggregate(
        self, model: Weights, local: Weights, arrivals: Arrivals, state: Weights
    ) -> Weights:
        """The next global model, (*shape) per parameter; called if any worker is present.

        Args:
            model: what the workers started from, (*shape) per parameter; clone what you keep.
            local: the workers' models after their training, (L, *shape) per parameter. One that
                did not arrive may hold anything, also NaN.
            arrivals: who was heard.
            state: of this federation; give its entries new values, in place or not.
        """


class LinearAverage(Aggregation):
    """A weighted sum of what arrived: a subclass gives the coefficients c_i, (L,).

    The next model is Σ_i c_i w_i; with ``of_updates`` it is w + Σ_i c_i (w_i − w), w being the
    model that the workers started from. Where all c_i are zero the model stays.
    """

    of_updates: ClassVar[bool] = False

    @abstractmethod
    def coefficients(self, arrivals: Arrivals) -> Tensor:
        """c_i, (L,) float64; exactly zero for a model that must not enter the sum."""

    def aggregate(
        self,
        model: Weights,
        local: Weights,
        arrivals: Arrivals,
        state: Weights,
    ) -> Weights:
        """One product per parameter."""
        coefficients = self.coefficients(arrivals)
        counted = coefficients.nonzero()[:, 0]
        if len(counted) == 0:
            return model
        everyone = len(counted) == len(coefficients)
        some = next(iter(model.values()))
        factors, rows = coefficients[counted].to(some), counted.to(some.device)
        found = {}
        for name, previous in model.items():
            # Without rows of zero weight: NaN times zero would spoil the sum.
            sent = local[name] if everyone else local[name][rows]
            if self.of_updates:
                moved = torch.mv((sent - previous).flatten(1).mT, factors)
                found[name] = previous + moved.view_as(previous)
            else:
                found[name] = torch.mv(sent.flatten(1).mT, factors).view_as(previous)
        return found


def find_aggregation(aggregation: str | Aggregation) -> Aggregation:
    """The aggregation itself, or the one of a registered name or ``package.module:Object``."""
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
    """Name, settings and shapes of the state, for the header of a checkpoint."""
    state = aggregation.initial_state(model)
    shapes = {name: list(tensor.shape) for name, tensor in state.items()}
    return {**object_identity(aggregation, AGGREGATIONS), "state": shapes}


@torch.no_grad()
def server_step_(
    aggregation: Aggregation, model: Weights, local: Weights, arrivals: Arrivals, state: Weights
) -> None:
    """Replace ``model``, and ``state``, by what the aggregation makes of the arrivals.

    Arguments as for :meth:`Aggregation.aggregate`.
    """
    before = {name: tensor.shape for name, tensor in state.items()}
    found = aggregation.aggregate(model, local, arrivals, state)
    _check_shapes(aggregation, "state", before, state)
    _check_shapes(aggregation, "model", {n: weight.shape for n, weight in model.items()}, found)
    for name, weight in model.items():
        weight.copy_(found[name])


def _check_shapes(
    aggregation: Aggregation, what: str, expected: dict[str, torch.Size], found: Weights
) -> None:
    if {name: tensor.shape for name, tensor in found.items()} != expected:
        raise InputError(
            f"aggregation: {AGGREGATIONS.name_of(type(aggregation))} returned a {what} with "
            f"{ {name: tuple(tensor.shape) for name, tensor in found.items()} }; accepted: "
            f"{ {name: tuple(shape) for name, shape in expected.items()} }."
        )


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
