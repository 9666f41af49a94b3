"""Schedules at network speed: learned phases, improved a little, mixed by the linear program.

Few rounds are solved one by one in NumPy, many at once in PyTorch (array_module.py says why).
"""

from __future__ import annotations

import functools
import math
from importlib import resources
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from feduplink.lagrangian import ChannelBatch
from feduplink.link import Schedule
from feduplink.scenario import Scenario
from feduplink.schedule.participation import with_somebody
from feduplink.schedule.phase_network import NetworkWeights, PhaseNetwork
from feduplink.schedule.phase_proposal import PhaseProposal, PricedRounds
from feduplink.schedule.round_batches import check_rounds, demand_array, round_batches
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
def _weight_arrays(network: PhaseNetwork) -> NetworkWeights:
    return network.weights.arrays()


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
    if _are_few(csi):
        wanted = demand_array(scenario, csi, bits, senders)
        few = PricedRounds.one_by_one(scenario, csi, wanted, seconds_per_joule)
        found = [_solved_alone(network, rounds).mixture() for rounds in few]
        durations_s, power = (torch.from_numpy(np.array(part)) for part in zip(*found, strict=True))
        return Schedule(durations_s, power)
    parts = []
    # Here and not around the function: for a round alone the switch takes as long as its mixture.
    with torch.no_grad():
        for batch, demand in round_batches(scenario, csi, bits, senders):
            rounds = PricedRounds.from_batch(batch, demand, seconds_per_joule)
            parts.append(Schedule(*_solved(network.weights, rounds).mixture()))
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
    if _are_few(csi):
        wanted = demand_array(scenario, csi, bits, present)
        few = PricedRounds.one_by_one(scenario, csi, wanted, seconds_per_joule, rewards)
        found = [_solved_alone(network, rounds).shares for rounds in few]
        batch = ChannelBatch.from_scenario(scenario, csi)
        parts = [(batch, torch.from_numpy(wanted), torch.from_numpy(np.stack(found)))]
    else:
        parts = []
        for batch, demand in round_batches(scenario, csi, bits, present):
            rounds = PricedRounds.from_batch(batch, demand, seconds_per_joule, rewards)
            parts.append((batch, demand, _solved(network.weights, rounds).shares))
    senders = [
        with_somebody(batch, demand, (shares > _SENDS) & (demand > 0), rewards, seconds_per_joule)
        for batch, demand, shares in parts
    ]
    return torch.cat(senders)


def _are_few(csi: Tensor) -> bool:
    """Whether rounds are solved one by one, which is quicker."""
    return csi.shape[0] <= _FEW and csi.is_cpu


@np.errstate(over="ignore")
def _solved_alone(network: PhaseNetwork, rounds: PricedRounds) -> PhaseProposal:
    """What the network proposes for one round, improved, in NumPy."""
    return _solved(_weight_arrays(network), rounds)


def _solved(weights: NetworkWeights, rounds: PricedRounds) -> PhaseProposal:
    """What the network proposes, improved."""
    proposal = PhaseProposal(rounds)
    proposal.propose(weights)
    workers = rounds.demand.shape[-1]
    for _ in range(max(_LEAST_STEPS, math.ceil(workers / _WORKERS_PER_STEP))):
        proposal.improve()
    return proposal
