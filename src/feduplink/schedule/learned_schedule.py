"""Schedules at network speed: learned phases, improved a little, mixed by the linear program.

Few rounds are solved one by one in NumPy, many at once in PyTorch (array_module.py says why).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from importlib import resources
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from feduplink.link import Schedule
from feduplink.scenario import Scenario
from feduplink.schedule.array_module import Array
from feduplink.schedule.participation import with_somebody
from feduplink.schedule.phase_network import PhaseNetwork
from feduplink.schedule.phase_proposal import PhaseProposal, PricedRounds
from feduplink.schedule.round_batches import check_rounds, round_batches
from feduplink.tensorfile import TensorFile, read_tensors, write_tensors

#: What a file of weights says it is.
_KIND = "phase network"
#: The phases in use are improved once for so many workers, and so often at least.
_WORKERS_PER_STEP = 6
_LEAST_STEPS = 2
#: The share of its model from which on a worker sends all of it.
_SENDS = 0.5
#: Up to so many rounds are solved one by one.
_FEW = 8


def save_phase_network(network: PhaseNetwork, path: Path) -> None:
    """Write the weights."""
    write_tensors(path, _KIND, TensorFile(dict(network.state_dict()), {}))


def load_phase_network(path: Path) -> PhaseNetwork:
    """A network with the weights of a file."""
    network = PhaseNetwork()
    network.load_state_dict(read_tensors(path, _KIND).tensors)
    return network.requires_grad_(False)


@functools.cache
def shipped_phase_network() -> PhaseNetwork:
    """The network that comes with the package."""
    file = resources.files("feduplink.schedule") / "phase_network.safetensors"
    return load_phase_network(Path(str(file)))


@functools.lru_cache(maxsize=4)
def _weight_arrays(network: PhaseNetwork) -> dict[str, Array]:
    """The weights as arrays, which share the memory of the tensors."""
    return {name: weight.detach().numpy() for name, weight in network.weights.items()}


@torch.no_grad()
def learned_schedules(
    network: PhaseNetwork,
    scenario: Scenario,
    csi: Tensor,
    bits: float | Tensor,
    *,
    seconds_per_joule: float = 0.0,
    senders: Tensor | None = None,
) -> Schedule:
    """Schedules of little time + κ · energy for channels (N, L, L); arguments as of the search."""
    check_rounds(csi, [seconds_per_joule])
    parts = []
    for batch, demand in round_batches(scenario, csi, bits, senders):
        rounds = PricedRounds.from_batch(batch, demand, seconds_per_joule)
        mixtures = [proposal.mixture() for proposal in _proposals(network, rounds)]
        parts += [Schedule(*map(_as_batch, mixture)) for mixture in mixtures]
    return Schedule.concat(parts)


@torch.no_grad()
def learned_senders(
    network: PhaseNetwork,
    scenario: Scenario,
    csi: Tensor,
    bits: float | Tensor,
    rewards: Tensor,
    *,
    seconds_per_joule: float = 0.0,
    present: Tensor | None = None,
) -> Tensor:
    """Who takes part at rewards λ, (L,) s, by the shares of the mixtures, (N, L) bool."""
    check_rounds(csi, [seconds_per_joule])
    parts = []
    for batch, demand in round_batches(scenario, csi, bits, present):
        rounds = PricedRounds.from_batch(batch, demand, seconds_per_joule, rewards)
        shares = [_as_batch(proposal.shares) for proposal in _proposals(network, rounds)]
        senders = (torch.cat(shares) > _SENDS) & (demand > 0)
        parts.append(with_somebody(batch, demand, senders, rewards, seconds_per_joule))
    return torch.cat(parts)


def _proposals(network: PhaseNetwork, rounds: PricedRounds) -> Iterator[PhaseProposal]:
    """Of all rounds at once, or of few of them one by one, which is quicker."""
    count, workers = rounds.demand.shape
    if count > _FEW or rounds.demand.device.type != "cpu":
        proposals, weights = [PhaseProposal(rounds)], network.weights
    else:
        weights = _weight_arrays(network)
        proposals = [PhaseProposal(rounds.one_round(number)) for number in range(count)]
    for proposal in proposals:
        proposal.propose(weights)
        for _ in range(max(_LEAST_STEPS, math.ceil(workers / _WORKERS_PER_STEP))):
            proposal.improve()
        yield proposal


def _as_batch(values: Array) -> Tensor:
    """Tensors of several rounds as they are, arrays of one as a tensor of one."""
    return torch.from_numpy(values)[None] if isinstance(values, np.ndarray) else values
