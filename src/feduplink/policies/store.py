"""Policies by name and as files, and how a policy's scenario differs from the one at hand."""

from __future__ import annotations

import itertools
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from numpy.typing import ArrayLike
from torch import Tensor

from feduplink.channels import Channels
from feduplink.errors import InputError
from feduplink.policies.base import FunctionPolicy, Policy, TuningContext
from feduplink.problem import Problem
from feduplink.registry import CHANNEL_MODELS, MEASURES, POLICIES
from feduplink.scenario import DRAWING_FIELDS, Goal, Radio, Scenario
from feduplink.settings import PARTS
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
        "policy": policy.registered_name,
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
    found = POLICIES.find_in_file(str(content.header.get("policy")), file)
    fields = content.header.get("scenario")
    if not isinstance(fields, dict):
        raise InputError(f"policy: {file} holds no scenario.")
    CHANNEL_MODELS.find_in_file(str(fields.get("channel_model", "wbs")), file)
    scenario = Scenario(**fields)
    for measure in scenario.measures:
        MEASURES.find_in_file(measure, file)
    check_finite(file, content)
    name = getattr(found, "name", str(content.header.get("policy")))
    with fitting(file, _KIND, f"a {name}"):
        kind = _policy_or_class(found, scenario)
        policy = kind if isinstance(kind, Policy) else kind.from_tensors(scenario, content.tensors)
    if other := policy.tensors().keys() ^ content.tensors.keys():
        raise InputError(
            f"policy: {file} does not fit a {name}: it has other tensors than this version's "
            f"({', '.join(sorted(other))}); accepted: one that this version saved."
        )
    return policy


def _policy_or_class(found: object, scenario: Scenario) -> Policy | type[Policy]:
    """What a registry, a module or a caller gave; a function becomes a policy."""
    if isinstance(found, Policy):
        return found
    if isinstance(found, type) or not callable(found):
        return policy_class(found)
    return FunctionPolicy(scenario, found)


def policy_class(found: object) -> type[Policy]:
    """What a registry or module gave, if it is the class of a policy."""
    if not (isinstance(found, type) and issubclass(found, Policy)):
        raise InputError(
            f"policy: {found!r} is not a policy; accepted: a subclass of feduplink.PowerPolicy or "
            "feduplink.SchedulePolicy, an object of one, or a function of csi and scenario."
        )
    return found


def _file_of(path: Path) -> Path:
    if path.suffix == ".py":
        raise InputError(
            f"policy: {path} is a Python file; accepted: {path.stem}:CLASS for a class in it, or "
            "the directory of a training run."
        )
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


#: What stands for a policy: a name or path, a policy, a class, or a function of CSI and scenario.
PolicyLike = str | os.PathLike[str] | Policy | type[Policy] | Callable[[Tensor, Scenario], Any]


def make_policy(
    what: PolicyLike,
    scenario: Scenario,
    *,
    channels: Channels | ArrayLike | None = None,
    problem: Problem | None = None,
    seed: int = 0,
    **options: Any,
) -> Policy:
    """Make a policy for a scenario, or read a saved one.

    A saved policy that was made for another scenario is used with a warning.

    Args:
        what: a registered name; ``package.module:Object``; the directory of a training run or a
            policy's file; a :class:`Policy`, which is returned; a class of policies; or a function
            ``f(csi, scenario)`` that maps H (N, L, L) to powers (N, L) in W.
        scenario: the cell and its radio.
        channels: to tune on: the training split of a set, or all channels of an array (N, L, L);
            without any the policy draws from the scenario.
        problem: to be solved; None is the problem that the scenario describes.
        seed: of random numbers.
        options: further arguments of the class's ``make``, those in its ``options``.

    >>> make_policy("max", Scenario(workers=2)).allocate(torch.ones(1, 2, 2))
    tensor([[0.0100, 0.0100]])
    """
    Scenario.check(scenario, "scenario")
    context = TuningContext(_tuning_channels(channels), problem, seed)
    found = _find(what, scenario, context)
    accepted = found.options if isinstance(found, type) else found.open_options
    for option in options.keys() - set(accepted):
        raise InputError(
            f"{option}: {found.name} does not take it; accepted options: "
            f"{', '.join(accepted) or 'none'}."
        )
    return _made(found, scenario, context, options)


def make_policies(
    names: Sequence[PolicyLike] | Mapping[str, PolicyLike] | PolicyLike,
    scenario: Scenario,
    *,
    channels: Channels | ArrayLike | None = None,
    problem: Problem | None = None,
    seed: int = 0,
    options: Mapping[str, Any] | None = None,
) -> dict[str, Policy]:
    """Make several policies for a scenario, by label.

    A policy is labelled by the registered name that it was asked for, else by its own name; two
    policies of one name are told apart by what they were asked for, or by a number.

    Args:
        names: each as in :func:`make_policy`, or a single one; a mapping gives the labels.
        scenario: the cell and its radio.
        channels: to tune on, as in :func:`make_policy`.
        problem: to be solved; None is the problem that the scenario describes.
        seed: of random numbers.
        options: further arguments of ``make``; a class is given those in its ``options``.
    """
    Scenario.check(scenario, "scenario")
    if not names:
        raise InputError(f"policies: none given; accepted: {', '.join(POLICIES.names())}.")
    context, options = TuningContext(_tuning_channels(channels), problem, seed), options or {}
    # Everything is found before the first policy is tuned, so that a wrong name costs no time.
    if isinstance(names, Mapping):
        labelled = {label: _find(what, scenario, context) for label, what in names.items()}
        return {
            label: _made(found, scenario, context, options) for label, found in labelled.items()
        }
    if isinstance(names, str) or not isinstance(names, Sequence):
        names = [names]
    names = [POLICIES.aliases.get(n, n) if isinstance(n, str) else n for n in names]
    wanted = {what: _find(what, scenario, context) for what in dict.fromkeys(names)}
    classes = {found.name for found in wanted.values() if isinstance(found, type)}
    policies: dict[str, Policy] = {}
    for what, found in wanted.items():
        policy = _made(found, scenario, context, options)
        label = what if isinstance(what, str) and what in POLICIES.names() else policy.name
        if label in policies or (isinstance(found, Policy) and label in classes):
            if not isinstance(what, str | os.PathLike):
                numbered = (f"{label}:{n}" for n in itertools.count(2))
                label = next(name for name in numbered if name not in policies)
            else:
                is_saved = not isinstance(found, type | FunctionPolicy)
                label = f"{label}:{what}" if is_saved else str(what)
        policies[label] = policy
    return policies


def _tuning_channels(channels: Channels | ArrayLike | None) -> Channels | None:
    """Channels with a training split, which is the whole of an array; None: there is none."""
    if channels is None:
        return None
    if isinstance(channels, Channels):
        return channels if len(channels.rows["training"]) else None
    csi = torch.as_tensor(channels)
    none = torch.empty(0, dtype=torch.int64)
    rows = {**dict.fromkeys(PARTS, none), "training": torch.arange(len(csi))}
    return Channels(csi, rows, "of an array")


def _find(what: PolicyLike, scenario: Scenario, context: TuningContext) -> Policy | type[Policy]:
    """The policy, or the class that makes it."""
    found: object = what
    if isinstance(what, str | os.PathLike):
        name = str(what)
        if name not in (*POLICIES.names(), *POLICIES.aliases) and Path(name).exists():
            return _saved(name, scenario, context.channels)
        try:
            name = POLICIES.check(name)
        except InputError as error:
            accepted = str(error).removesuffix(".")
            raise InputError(f"{accepted}, or the directory of a training run.") from None
        found = POLICIES.find(name)
    policy = _policy_or_class(found, scenario)
    if isinstance(policy, Policy):
        _check_workers(policy, scenario, policy.name)
    return policy


def _made(
    found: Policy | type[Policy],
    scenario: Scenario,
    context: TuningContext,
    options: Mapping[str, Any],
) -> Policy:
    """The policy, or the one that its class makes, with the options that it takes."""
    accepted = found.options if isinstance(found, type) else found.open_options
    taken = {name: value for name, value in options.items() if name in accepted}
    if isinstance(found, Policy):
        return found.with_options(scenario, context, **taken) if taken else found
    return found.make(scenario, context, **taken)


def _saved(path: str, scenario: Scenario, channels: Channels | None) -> Policy:
    recorded = channels is not None and channels.recorded
    policy = load_policy(path)
    _check_workers(policy, scenario, f"the {policy.name} of {path}")
    if differences := made_for(policy, scenario, recorded=recorded):
        warnings.warn(made_for_sentence(f"{policy.name} of {path}", differences), stacklevel=4)
    return policy


def _check_workers(policy: Policy, scenario: Scenario, name: str) -> None:
    if policy.fixed_workers not in (None, scenario.workers):
        raise InputError(
            f"policies: {name} takes exactly {policy.fixed_workers} workers; there are "
            f"{scenario.workers}."
        )
