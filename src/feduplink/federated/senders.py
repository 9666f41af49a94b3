"""Policies and access schemes of a federation, by name."""

from __future__ import annotations

from collections.abc import Sequence

from feduplink.channels import ChannelSource
from feduplink.comparison import find_policies
from feduplink.federated.access import Sender, access_schemes_among
from feduplink.policies import Deployment
from feduplink.scenario import Scenario


def find_senders(
    names: Sequence[str],
    scenario: Scenario,
    *,
    seed: int = 0,
    seconds_per_joule: float = 0.0,
    delivery: float | Sequence[float] = 1.0,
    recording: ChannelSource | None = None,
) -> dict[str, Sender]:
    """Access schemes and policies by the names that a command line takes.

    Policies are tuned on the training channels of ``recording``, or else of the scenario in any
    cell; κ = ``seconds_per_joule`` and the ``delivery`` d go to the schemes that take them.
    """
    anywhere = any_cell(scenario)
    source = recording or ChannelSource.from_scenario(anywhere, seed=seed)
    deployment = Deployment.from_channels(anywhere, source, seed=seed)
    schemes, policies = access_schemes_among(
        names, seconds_per_joule=seconds_per_joule, delivery=delivery, deployment=deployment
    )
    senders: dict[str, Sender] = {**schemes}
    if policies:
        senders.update(find_policies(policies, deployment))
    return senders


def any_cell(scenario: Scenario) -> Scenario:
    """What policies are made for: every run has a cell of its own, which nobody knows before."""
    return scenario.replace(geometry="redrawn", speed_mps=0.0, coherence_time_s=None)
