"""How a federated comparison goes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import get_args

import torch
from torch import Tensor

from feduplink.errors import InputError
from feduplink.federated.choices import PacketSuccess
from feduplink.federated.server_step import Aggregation, find_aggregation
from feduplink.federated.uplink import everyone


@dataclass(frozen=True)
class FederationSettings:
    """How a comparison goes.

    Attributes:
        runs: independent repetitions, each with its own data, weights, channels and arrivals.
        rounds: of every run; None takes the task's.
        aggregation: how the server makes the next model: a registered name, as ``exact``,
            ``package.module:Class``, or an object.
        deadline_s: longest round, s; what is not sent by then is lost.
        packet_success: which SINR decides whether an upload arrives.
        present: workers in the federation round by round, (N, L) bool; None is everyone, always.
        checkpoint_every: rounds between checkpoints.

    """

    runs: int = 1
    rounds: int | None = None
    aggregation: str | Aggregation = "exact"
    deadline_s: float | None = None
    packet_success: PacketSuccess = "worst-phase"
    present: Tensor | None = None
    checkpoint_every: int = 10

    def __post_init__(self) -> None:
        for name, value in (("runs", self.runs), ("checkpoint_every", self.checkpoint_every)):
            if value < 1:
                raise InputError(f"{name}: {value} is not accepted; accepted: 1 or more.")
        if self.rounds is not None and self.rounds < 1:
            raise InputError(f"rounds: {self.rounds} is not accepted; accepted: 1 or more.")
        if self.deadline_s is not None and not 0 < self.deadline_s < math.inf:
            raise InputError(
                f"deadline: {self.deadline_s} s is not accepted; accepted: above 0, finite."
            )
        find_aggregation(self.aggregation)
        if self.packet_success not in get_args(PacketSuccess):
            raise InputError(
                f"packet_success: {self.packet_success!r} is unknown; accepted: "
                f"{', '.join(get_args(PacketSuccess))}."
            )

    def presence(self, rounds: int, workers: int) -> Tensor:
        """``present`` of a run with so many rounds and workers, (N, L) bool."""
        if self.present is None:
            return everyone(rounds, workers)
        if self.present.dtype != torch.bool or self.present.shape != (rounds, workers):
            raise InputError(
                f"present: {self.present.dtype} of shape {tuple(self.present.shape)}; accepted: "
                f"bool of shape {(rounds, workers)}, one row per round."
            )
        return self.present
