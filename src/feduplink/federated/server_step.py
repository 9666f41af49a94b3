"""What the server does with the models that arrive: the next global model.

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
from feduplink.identity import object_identity
from feduplink.registry import AGGREGATIONS


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
