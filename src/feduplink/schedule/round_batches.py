"""Channels and demands of many rounds, in batches that fit into memory."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from feduplink import link
from feduplink.channels import check_csi
from feduplink.errors import InputError
from feduplink.lagrangian import ChannelBatch
from feduplink.scenario import Scenario

#: Reward of who has to send in every round, and hence what leaving it out costs: any number of s.
ALWAYS_S = 1e30
#: Rounds at once, and numbers in a tensor of all workers, phases and switched workers at once.
_MOST_ROUNDS = 256
_MOST_NUMBERS = 1 << 22


def check_rounds(csi: Tensor, seconds_per_joule: Sequence[float]) -> None:
    """Refuse channels that are not (N, L, L) and prices that are none."""
    check_csi(csi)
    if csi.ndim != 3 or len(csi) == 0:
        raise InputError(f"csi: shape {tuple(csi.shape)}; accepted: (N, L, L) with N of 1 or more.")
    for kappa in seconds_per_joule:
        if not 0 <= kappa < math.inf:
            raise InputError(f"kappa: {kappa} s/J is not accepted; accepted: 0 or more, finite.")


def demand_of(
    scenario: Scenario, csi: Tensor, bits: float | Tensor, senders: Tensor | None = None
) -> Tensor:
    """w = Z ln 2 / B of every worker, (N, L) nats/Hz; 0 for who is not among the ``senders``."""
    shape = csi.shape[:-1]
    demand = link.rate_for_time(
        torch.as_tensor(bits, dtype=torch.float64), 1.0, scenario.bandwidth_hz
    )
    demand = demand.expand(shape).to(csi.device)
    return demand.clone() if senders is None else demand * senders


def demand_array(
    scenario: Scenario, csi: Tensor, bits: float | Tensor, senders: Tensor | None = None
) -> npt.NDArray[np.float64]:
    """The same of few rounds, as an array; a model's bits are those of the round before, mostly."""
    key = tuple(bits.tolist()) if isinstance(bits, Tensor) and bits.ndim else float(bits)
    demand = np.empty(csi.shape[:-1])
    demand[...] = _demand(key, scenario.bandwidth_hz)
    return demand if senders is None else demand * senders.numpy()


@functools.lru_cache(maxsize=64)
def _demand(bits: float | tuple[float, ...], bandwidth_hz: float) -> npt.NDArray[np.float64]:
    rate = link.rate_for_time(torch.tensor(bits, dtype=torch.float64), 1.0, bandwidth_hz)
    return rate.numpy()


def round_batches(
    scenario: Scenario, csi: Tensor, bits: float | Tensor, senders: Tensor | None = None
) -> Iterator[tuple[ChannelBatch, Tensor]]:
    """The channels (N, L, L) in float64, batch after batch, with what everyone has to deliver."""
    demand = demand_of(scenario, csi, bits, senders)
    count = max(1, min(_MOST_ROUNDS, _MOST_NUMBERS // csi.shape[-1] ** 3))
    for start in range(0, len(csi), count):
        rows = slice(start, start + count)
        yield ChannelBatch.from_scenario(scenario, csi[rows]), demand[rows]
