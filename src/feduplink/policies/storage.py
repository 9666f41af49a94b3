"""Policies as files."""

from __future__ import annotations

import os
from importlib import resources
from pathlib import Path

from feduplink.errors import InputError
from feduplink.policies.base import Policy
from feduplink.policies.dual import DualPolicy
from feduplink.policies.full_power import FullPower
from feduplink.policies.openloop import OpenLoop
from feduplink.policies.orth import Orthogonal
from feduplink.policies.pdg import GraphPolicy
from feduplink.policies.pdm import PerceptronPolicy
from feduplink.policies.pdx import UnrolledPolicy
from feduplink.policies.rand import RandomPower
from feduplink.registry import CHANNEL_MODELS
from feduplink.scenario import Scenario
from feduplink.tensorfile import TensorFile, read_tensors, write_tensors

#: The name of a policy's file inside the directory of a training run.
POLICY_FILE = "policy.safetensors"

_KIND = "policy"

POLICIES: dict[str, type[Policy]] = {
    policy.name: policy
    for policy in (
        FullPower,
        RandomPower,
        Orthogonal,
        OpenLoop,
        PerceptronPolicy,
        GraphPolicy,
        DualPolicy,
        UnrolledPolicy,
    )
}


def save_policy(policy: Policy, path: str | os.PathLike[str]) -> Path:
    """Write a policy with its scenario to ``path``, a file or a directory; returns the file."""
    file = _file_of(Path(path))
    header = {"policy": policy.name, "scenario": policy.scenario.model_dump(mode="json")}
    write_tensors(file, _KIND, TensorFile(policy.tensors(), header))
    return file


def load_policy(path: str | os.PathLike[str]) -> Policy:
    """Read a policy from the file or directory it was saved to; nothing in it is executed.

    ``"pdx"`` is the one that ships with the package, for the default scenario;
    ``optimum.shipped_pdx`` is it for any scenario.
    """
    file = _file_of(Path(path))
    if str(path) == UnrolledPolicy.name and not Path(path).exists():
        file = Path(str(resources.files("feduplink.policies") / "pdx.safetensors"))
    content = read_tensors(file, _KIND)
    kind = POLICIES.get(content.header.get("policy", ""))
    if kind is None:
        raise InputError(
            f"policy: {file} holds the unknown policy {content.header.get('policy')!r}; "
            f"accepted: {', '.join(POLICIES)}."
        )
    fields = content.header.get("scenario")
    if not isinstance(fields, dict):
        raise InputError(f"policy: {file} holds no scenario.")
    CHANNEL_MODELS.find_in_file(str(fields.get("channel_model", "wbs")), file)
    scenario = Scenario(**fields)
    try:
        return kind.from_tensors(scenario, content.tensors)
    except (KeyError, RuntimeError, TypeError, ValueError) as error:
        reason = " ".join(str(error).split()).removesuffix(".")
        raise InputError(f"policy: {file} does not fit a {kind.name}: {reason}.") from None


def _file_of(path: Path) -> Path:
    return path if path.suffix == ".safetensors" else path / POLICY_FILE
