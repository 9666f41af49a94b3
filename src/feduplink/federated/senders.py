"""Policies and access schemes of a federation, by name."""

from __future__ import annotations

from collections.abc import Sequence

from feduplink.channels import ChannelSource
from feduplink.comparison import find_policies
from feduplink.federated.access import Sender, find_access_scheme
from feduplink.policies import Deployment
from feduplink.registry import ACCESS_SCHEMES
from feduplink.scenario import Scenario


def find_senders(
    names: Sequence[str],
    scenario: Scenario,
    *,
    seed: int = 0,
    seconds_per_joule: float = 0.0,
    recording: ChannelSource | None = None,
) -> dict[str, Sender]:
    """Access schemes by their registered names; policies as :func:`find_policies` finds them.

    Policies are tuned on the training channels of ``recording``, or else of the scenario in any
    cell; κ = ``seconds_per_joule`` goes to the schemes that take it.
    """
    senders: dict[str, Sender] = {}
    for access in ACCESS_SCHEMES.names():
        if access in names:
            senders[access] = find_access_scheme(access, seconds_per_joule=seconds_per_joule)
    if policies := [name for name in names if name not in senders]:
        anywhere = any_cell(scenario)
        source = recording or ChannelSource.from_scenario(anywhere, seed=seed)
        deployment = Deployment(anywhere, source.training, recorded=source.recorded, seed=seed)
        senders.update(find_policies(policies, deployment))
    return senders


def any_cell(scenario: Scenario) -> Scenario:
    """What policies are made for: every run has a cell of its own, which nobody knows before."""
    return scenario.replace(geometry="redrawn", speed_mps=0.0, coherence_time_s=None)
