"""In what the scenario that a policy was made for differs from the one it is judged in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from feduplink.policies.base import Policy
from feduplink.scenario import DRAWING_FIELDS, Goal, Radio, Scenario

#: Fields that may be one value or one per worker.
_PER_WORKER = (*Goal.per_worker, *Radio.per_worker)


def made_for(
    policy: Policy, scenario: Scenario, *, recorded: bool = False
) -> dict[str, tuple[Any, Any]]:
    """The fields that differ: the value that the policy was made for, and the one here.

    How channels are drawn does not matter where they are ``recorded``.
    """
    its, here = (s.model_dump(mode="json") for s in (policy.scenario, scenario))
    ignored = DRAWING_FIELDS if recorded else frozenset[str]()
    return {
        name: (its[name], here[name])
        for name in its
        if name not in ignored and not _alike(policy, scenario, name)
    }


def made_for_sentence(name: str, differences: Mapping[str, tuple[Any, Any]]) -> str:
    """A sentence for the reader, without its capital and full stop.

    >>> made_for_sentence("pdg", {"objective": ("rate", "psr")})
    'pdg was made for another scenario: objective rate (here psr)'
    """
    fields = ", ".join(
        f"{field} {_shown(its)} (here {_shown(here)})" for field, (its, here) in differences.items()
    )
    sentence = f"{name} was made for another scenario: {fields}"
    if "pmax_dbw" in differences:
        sentence += f"; its powers are cut at {_shown(differences['pmax_dbw'][1])} dBW"
    return sentence


def _alike(policy: Policy, scenario: Scenario, name: str) -> bool:
    if getattr(policy.scenario, name) == getattr(scenario, name):
        return True
    if name not in _PER_WORKER or policy.scenario.workers != scenario.workers:
        return False
    its, here = (_per_worker(s, name) for s in (policy.scenario, scenario))
    return torch.equal(its, here)


def _per_worker(scenario: Scenario, name: str) -> Tensor:
    """The values of a field, (L,) float64."""
    if name == "weights":
        return scenario.worker_weights
    return torch.tensor(getattr(scenario, name), dtype=torch.float64).expand(scenario.workers)


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return f"{min(value):g} to {max(value):g}"
    if isinstance(value, float):
        return f"{value:g}"
    return "none" if value is None else str(value)
