"""Policies as files, and how the scenario of a policy differs from the one at hand."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from feduplink.errors import InputError
from feduplink.policies.base import Deployment, Policy
from feduplink.registry import CHANNEL_MODELS, MEASURES, POLICIES
from feduplink.scenario import DRAWING_FIELDS, Goal, Radio, Scenario
from feduplink.storage.tensorfile import (
    TensorFile,
    check_finite,
    fitting,
    read_tensors,
    write_tensors,
)

#: The name of a policy's file inside the directory of a training run.
POLICY_FILE = "policy.safetensors"

_KIND = "policy"


def save_policy(policy: Policy, path: str | os.PathLike[str]) -> Path:
    """Write a policy with its scenario to ``path``, a file or a directory; returns the file."""
    file = _file_of(Path(path))
    header = {
        "policy": POLICIES.name_of(type(policy)),
        "scenario": policy.scenario.model_dump(mode="json"),
    }
    write_tensors(file, _KIND, TensorFile(policy.tensors(), header))
    return file


def load_policy(path: str | os.PathLike[str]) -> Policy:
    """Read a policy from the file or directory it was saved to; nothing in it is executed.

    The class of a policy of your own has to be known: registered, declared by an installed
    package, or in a module that is imported already.
    """
    file = _file_of(Path(path))
    content = read_tensors(file, _KIND)
    kind = policy_class(POLICIES.find_in_file(str(content.header.get("policy")), file))
    fields = content.header.get("scenario")
    if not isinstance(fields, dict):
        raise InputError(f"policy: {file} holds no scenario.")
    CHANNEL_MODELS.find_in_file(str(fields.get("channel_model", "wbs")), file)
    scenario = Scenario(**fields)
    for measure in scenario.measures:
        MEASURES.find_in_file(measure, file)
    check_finite(file, content)
    with fitting(file, _KIND, f"a {kind.name}"):
        policy = kind.from_tensors(scenario, content.tensors)
    if other := policy.tensors().keys() ^ content.tensors.keys():
        raise InputError(
            f"policy: {file} does not fit a {kind.name}: it has other tensors than this version's "
            f"({', '.join(sorted(other))}); accepted: one that this version saved."
        )
    return policy


def policy_class(found: object) -> type[Policy]:
    """What a registry or module gave, if it is the class of a policy."""
    if not (isinstance(found, type) and issubclass(found, Policy)):
        raise InputError(
            f"policy: {found!r} is none; accepted: a subclass of feduplink.policies.Policy."
        )
    return found


def _file_of(path: Path) -> Path:
    return path if path.suffix == ".safetensors" else path / POLICY_FILE


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


def default_policies() -> tuple[str, ...]:
    """Names of those that a comparison shows unless others are asked for.

    Those whose class itself says ``by_default``: one derived from them does not inherit it.
    """
    return tuple(n for n in POLICIES.names() if vars(POLICIES.find(n)).get("by_default", False))


def find_policies(names: Sequence[str], deployment: Deployment) -> dict[str, Policy]:
    """Policies for a deployment, by name or by the directory or file they were saved to.

    A name is a registered one, an entry point's or ``package.module:Class``. A policy goes by its
    own name; where that is taken, by name and what it was asked for with. One that was made for
    another scenario is warned of.
    """
    if not names:
        raise InputError(f"policies: none given; accepted: {', '.join(POLICIES.names())}.")
    found: dict[str, Policy] = {}
    named = {name: _class(name) for name in dict.fromkeys(names)}
    taken = {kind.name for kind in named.values() if kind}
    for name, kind in named.items():
        if kind is not None:
            label = name if name in POLICIES.names() else kind.name
            found[label if label not in found else name] = kind.for_deployment(deployment)
            continue
        policy = _saved(name, deployment.scenario, recorded=deployment.recorded)
        label = f"{policy.name}:{name}" if policy.name in taken else policy.name
        taken.add(label)
        found[label] = policy
    return found


def _class(name: str) -> type[Policy] | None:
    """The class of a name; None for what was saved."""
    if name not in POLICIES.names() and Path(name).exists():
        return None
    try:
        POLICIES.check(name)
    except InputError as error:
        accepted = str(error).removesuffix(".")
        raise InputError(f"{accepted}, or the directory of a training run.") from None
    return policy_class(POLICIES.find(name))


def _saved(path: str, scenario: Scenario, *, recorded: bool) -> Policy:
    policy = load_policy(path)
    if policy.fixed_workers not in (None, scenario.workers):
        raise InputError(
            f"policies: the {policy.name} of {path} takes exactly {policy.fixed_workers} workers; "
            f"there are {scenario.workers}."
        )
    if differences := made_for(policy, scenario, recorded=recorded):
        warnings.warn(made_for_sentence(f"{policy.name} of {path}", differences), stacklevel=3)
    return policy
