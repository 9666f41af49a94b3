"""Schedules at network speed: learned phases, improved a little, mixed by the linear program."""

from __future__ import annotations

import functools
from importlib import resources
from pathlib import Path

import torch
from torch import Tensor

from feduplink.lagrangian import ChannelBatch, climb
from feduplink.link import Schedule
from feduplink.scenario import Scenario
from feduplink.schedule.column_generation import phase_prices
from feduplink.schedule.phase_network import PhaseNetwork, PhaseProposal
from feduplink.schedule.round_batches import check_rounds, demand_of
from feduplink.tensorfile import TensorFile, read_tensors, write_tensors

#: What a file of weights says it is.
_KIND = "phase network"
#: How often the phases in use are climbed from, and by how many Newton steps.
_CLIMBS = 2
_NEWTON_STEPS = 2
#: The share of its model from which on a worker sends all of it.
_SENDS = 0.5
#: Channels at once.
_CHUNK = 512


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
    demand = demand_of(scenario, csi, bits, senders)
    parts = []
    for start in range(0, len(csi), _CHUNK):
        rows = slice(start, start + _CHUNK)
        batch = ChannelBatch.from_scenario(scenario, csi[rows])
        parts.append(_mixed(network, batch, demand[rows], seconds_per_joule))
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
    demand = demand_of(scenario, csi, bits, present)
    parts = []
    for start in range(0, len(csi), _CHUNK):
        rows = slice(start, start + _CHUNK)
        batch = ChannelBatch.from_scenario(scenario, csi[rows]).to(torch.float32)
        price = torch.full_like(batch.direct[:, 0], seconds_per_joule)
        wanted = demand[rows].to(batch.direct)
        proposal = PhaseProposal(batch, wanted, price, rewards.to(wanted).expand_as(wanted))
        proposal.run(network)
        parts.append((proposal.shares > _SENDS) & (demand[rows] > 0))
    return torch.cat(parts)


def _mixed(network: PhaseNetwork, batch: ChannelBatch, demand: Tensor, kappa: float) -> Schedule:
    single = batch.to(torch.float32)
    price = torch.full_like(single.direct[:, 0], kappa)
    proposal = PhaseProposal(single, demand.to(single.direct), price)
    proposal.run(network)
    workers = demand.shape[-1]
    index = torch.arange(len(demand), device=demand.device).repeat_interleave(workers)
    for _ in range(_CLIMBS):
        prices = phase_prices(batch, proposal.master.multipliers[index], kappa)
        start = proposal.phases.reshape(-1, workers)
        better = climb(batch.take(index), prices, start, steps=_NEWTON_STEPS)
        proposal.add_powers(better.view(-1, workers, workers).to(price))
    return proposal.schedule(batch, demand)
