"""Policies as files."""

from __future__ import annotations

import os
from pathlib import Path

from feduplink.errors import InputError
from feduplink.policies.base import Policy
from feduplink.registry import CHANNEL_MODELS, MEASURES, POLICIES
from feduplink.scenario import Scenario
from feduplink.tensorfile import (
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
