"""Make policies by name, save and load them, and compare their scenario with another one."""

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
from feduplink.units import power_text

#: Name of the policy file in the directory of a training run.
POLICY_FILE = "policy.safetensors"

_KIND = "policy"


def save_policy(policy: Policy, path: str | os.PathLike[str]) -> Path:
    """Save a policy with its scenario.

    Args:
        policy: policy to save.
        path: a ``.safetensors`` file, or a directory in which ``policy.safetensors`` is written.

    Returns:
        Path of the file.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     save_policy(make_policy("max", Scenario(workers=2)), directory).name
    'policy.safetensors'
    """
    file = _file_of(Path(path))
    header = {
        "policy": policy.registered_name,
        "scenario": policy.scenario.model_dump(mode="json"),
    }
    write_tensors(file, _KIND, TensorFile(policy.tensors(), header))
    return file


def load_policy(path: str | os.PathLike[str]) -> Policy:
    """Load a policy that :func:`save_policy` saved, without executing code from the file.

    The class of a user-defined policy must be registered, declared by an installed package, or
    defined in an imported module.

    Args:
        path: policy file, or directory that contains it.

    Returns:
        The policy for the scenario that it was saved with.

    Raises:
        InputError: if the file is missing, damaged or not a policy, or if the class of the policy
            is unknown.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     file = save_policy(make_policy("max", Scenario(workers=2)), directory)
    ...     load_policy(file)
    FullPower(max for 2 workers)
    """
    file = _file_of(Path(path))
    content = read_tensors(file, _KIND)
    found = POLICIES.find_in_file(str(content.header.get("policy")), file)
    fields = content.header.get("scenario")
    if not isinstance(fields, dict):
        raise InputError(f"policy: {file} contains no scenario; accepted: a saved policy.")
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
            f"policy: {file} does not fit a {name}: the tensors {', '.join(sorted(other))} are "
            "missing or unexpected; accepted: a file saved by this version."
        )
    return policy


def _policy_or_class(found: object, scenario: Scenario) -> Policy | type[Policy]:
    """A policy or policy class as given; a function is wrapped in a :class:`FunctionPolicy`."""
    if isinstance(found, Policy):
        return found
    if isinstance(found, type) or not callable(found):
        return policy_class(found)
    return FunctionPolicy(scenario, found)


def policy_class(found: object) -> type[Policy]:
    """Return an object of a registry or module if it is a policy class.

    Raises:
        InputError: if ``found`` is not a subclass of :class:`Policy`.
    """
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


#: Fields that accept one value or one value per worker.
_PER_WORKER = (*Goal.per_worker, *Radio.per_worker)


def made_for(
    policy: Policy, scenario: Scenario, *, recorded: bool = False
) -> dict[str, tuple[Any, Any]]:
    """Compare the scenario that a policy was made for with another scenario.

    Args:
        policy: policy whose scenario is compared.
        scenario: scenario in which the policy is to be used.
        recorded: whether channels are recorded; fields of the channel model are then ignored.

    Returns:
        Values of the fields that differ: (value of the policy's scenario, value of ``scenario``).

    >>> policy = make_policy("max", Scenario(workers=2))
    >>> made_for(policy, Scenario(workers=2, pmax_dbw=-10.0))
    {'pmax_dbw': (-20.0, -10.0)}
    """
    its, here = (s.model_dump(mode="json") for s in (policy.scenario, scenario))
    ignored = DRAWING_FIELDS if recorded else frozenset[str]()
    return {
        name: (its[name], here[name])
        for name in its
        if name not in ignored and not _alike(policy, scenario, name)
    }


def made_for_sentence(name: str, differences: Mapping[str, tuple[Any, Any]]) -> str:
    """Describe the differences between scenarios in a sentence, without its full stop.

    Args:
        name: name of the policy.
        differences: result of :func:`made_for`.

    Returns:
        The sentence.

    >>> made_for_sentence("pdg", {"objective": ("rate", "psr")})
    'pdg was made for another scenario: objective rate (here psr)'
    """
    fields = ", ".join(
        f"Pmax {power_text(its)} (here {power_text(here)})"
        if field == "pmax_dbw"
        else f"{field} {_shown(its)} (here {_shown(here)})"
        for field, (its, here) in differences.items()
    )
    sentence = f"{name} was made for another scenario: {fields}"
    if "pmax_dbw" in differences:
        sentence += f"; its powers are cut at {power_text(differences['pmax_dbw'][1])}"
    return sentence


def _alike(policy: Policy, scenario: Scenario, name: str) -> bool:
    if getattr(policy.scenario, name) == getattr(scenario, name):
        return True
    if name not in _PER_WORKER or policy.scenario.workers != scenario.workers:
        return False
    its, here = (_per_worker(s, name) for s in (policy.scenario, scenario))
    return torch.equal(its, here)


def _per_worker(scenario: Scenario, name: str) -> Tensor:
    """Values of a field for all workers, (L,) float64."""
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
    """Names of the registered policies that a comparison includes by default.

    These are the classes that set ``by_default`` themselves; derived classes do not inherit it.

    >>> "max" in default_policies()
    True
    """
    return tuple(n for n in POLICIES.names() if vars(POLICIES.find(n)).get("by_default", False))


#: Specifies a policy: a name or path, a policy, a class, or a function of CSI and scenario.
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
    """Make a policy for a scenario, or load a saved one.

    A saved policy that was made for another scenario is used with a warning.

    Args:
        what: a registered name; ``package.module:Object``; the directory of a training run or a
            policy file; a :class:`Policy`, which is returned; a policy class; or a function
            ``f(csi, scenario)`` that maps H (N, L, L) in 1/W to powers (N, L) in W.
        scenario: the cell and its radio.
        channels: channels to tune on, the training split of a set or all channels of an array
            (N, L, L); None draws channels from the scenario.
        problem: optimisation problem; None uses the problem of the scenario.
        seed: seed of random numbers.
        options: additional keyword arguments of the class's ``make``.

    Returns:
        The policy.

    Raises:
        InputError: if ``what`` is unknown, or does not fit the number of workers or the options.

    >>> make_policy("max", Scenario(workers=2)).allocate(torch.ones(1, 2, 2))
    tensor([[0.0100, 0.0100]])
    """
    Scenario.check(scenario, "scenario")
    context = TuningContext(_tuning_channels(channels), problem, seed)
    found = _find(what, scenario, context)
    accepted = found.options if isinstance(found, type) else found.open_options
    for option in options.keys() - set(accepted):
        raise InputError(
            f"{option}: {found.name} does not accept this option; accepted options: "
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

    The label of a policy is its registered name if it is requested by that name, and
    ``policy.name`` otherwise. If a label occurs twice, the given name or path or a number is
    appended.

    Args:
        names: one or several of the values that :func:`make_policy` accepts; the keys of a mapping
            are the labels.
        scenario: the cell and its radio.
        channels: channels to tune on, as in :func:`make_policy`.
        problem: optimisation problem; None uses the problem of the scenario.
        seed: seed of random numbers.
        options: additional keyword arguments of ``make``; every class gets those it accepts.

    Returns:
        The policies by label.

    Raises:
        InputError: as :func:`make_policy`, or if ``names`` is empty.

    >>> list(make_policies(["max", "rand"], Scenario(workers=2)))
    ['max', 'rand']
    """
    Scenario.check(scenario, "scenario")
    if not names:
        raise InputError(f"policies: no policy is given; accepted: {', '.join(POLICIES.names())}.")
    context, options = TuningContext(_tuning_channels(channels), problem, seed), options or {}
    # All names are resolved before the first policy is tuned, so that errors appear at once.
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
    """Channels to tune on: all channels of an array; None if the training split is empty."""
    if channels is None:
        return None
    if isinstance(channels, Channels):
        return channels if len(channels.rows["training"]) else None
    csi = torch.as_tensor(channels)
    none = torch.empty(0, dtype=torch.int64)
    rows = {**dict.fromkeys(PARTS, none), "training": torch.arange(len(csi))}
    return Channels(csi, rows, "of an array")


def _find(what: PolicyLike, scenario: Scenario, context: TuningContext) -> Policy | type[Policy]:
    """Resolve a name, path, class or function to a policy or a policy class."""
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
    """Make a policy of a class, with the accepted options; a policy is returned as it is."""
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
            f"policies: {name} takes exactly {policy.fixed_workers} workers; the scenario has "
            f"{scenario.workers}."
        )
