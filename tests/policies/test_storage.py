from __future__ import annotations

import pickle
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from feduplink import (
    DualPolicy,
    FullPower,
    GraphPolicy,
    InputError,
    OpenLoop,
    Orthogonal,
    PerceptronPolicy,
    RandomPower,
    Scenario,
    load_policy,
    save_policy,
)
from feduplink.lagrangian import Multipliers
from feduplink.policies import POLICIES, GraphArchitecture, UnrolledNetwork, UnrolledPolicy
from feduplink.tensorfile import TensorFile, write_tensors

SCENARIO = Scenario(workers=3, pmax_dbw=-30, rate_min=(0.1, 0.2, 0.3), weights=(1.0, 2.0, 3.0))
SAVED = [
    FullPower(SCENARIO),
    RandomPower(SCENARIO, seed=3),
    RandomPower(SCENARIO, selection=False),
    Orthogonal(SCENARIO),
    Orthogonal(SCENARIO, selection=False),
    OpenLoop(SCENARIO, target=0.123, fraction=0.77),
    PerceptronPolicy.initialised(SCENARIO),
    GraphPolicy.initialised(SCENARIO),
    DualPolicy(SCENARIO, Multipliers(torch.rand(2, 3).double() / 100, torch.rand(3).double())),
    UnrolledPolicy(
        SCENARIO,
        UnrolledNetwork.initialised(),
        Multipliers(torch.rand(2, 3).double() / 100, torch.rand(3).double()),
    ),
]


@pytest.mark.parametrize("policy", SAVED, ids=lambda policy: policy.name)
def test_round_trip(policy, tmp_path):
    csi = torch.rand(50, 3, 3, generator=torch.Generator().manual_seed(0)) * 1e4 + 1
    assert save_policy(policy, tmp_path / "run") == tmp_path / "run" / "policy.safetensors"
    loaded = load_policy(tmp_path / "run")
    assert type(loaded) is type(policy)
    assert loaded.scenario == policy.scenario
    assert torch.equal(loaded.allocate(csi), policy.allocate(csi))


def test_every_policy_that_can_be_loaded_is_tested_here():
    assert {policy.name for policy in SAVED} == set(POLICIES)


def write(path: Path, policy: str, tensors: dict[str, torch.Tensor], **header: object) -> None:
    scenario = {"scenario": SCENARIO.model_dump(mode="json")}
    write_tensors(path, "policy", TensorFile(tensors, {"policy": policy, **scenario, **header}))


@pytest.mark.parametrize(
    ("policy", "tensors", "header", "sentence"),
    [
        ("dqn", {}, {}, r"unknown policy 'dqn'; accepted: max, rand, orth"),
        ("pdg", {}, {}, r"does not fit a pdg: .*Missing key"),
        ("pdg", PerceptronPolicy(SCENARIO).state_dict(), {}, r"does not fit a pdg"),
        ("pdm", PerceptronPolicy(Scenario(workers=5)).state_dict(), {}, r"does not fit a pdm"),
        ("openloop", {"setting": torch.ones(3)}, {}, r"does not fit a openloop"),
        ("openloop", {"setting": torch.tensor(1.0)}, {}, r"does not fit a openloop"),
        ("openloop", {}, {}, r"does not fit a openloop"),
        ("max", {}, {"scenario": {"workers": -1}}, r"^workers: .*greater than or equal to 1"),
        ("max", {}, {"scenario": None}, r"holds no scenario"),
    ],
)
def test_file_that_holds_no_working_policy_is_refused(tmp_path, policy, tensors, header, sentence):
    file = tmp_path / "policy.safetensors"
    write(file, policy, tensors, **header)
    with pytest.raises(InputError, match=sentence) as refusal:
        load_policy(file)
    assert "\n" not in str(refusal.value)


class Intruder:
    """Leaves a mark when unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self):
        return Path.touch, (self.mark,)


@pytest.mark.parametrize("dump", [pickle.dump, torch.save], ids=["pickle", "torch.save"])
def test_loading_never_unpickles(tmp_path, dump):
    mark = tmp_path / "unpickled"
    file = tmp_path / "policy.safetensors"
    with file.open("wb") as stream:
        dump(Intruder(mark), stream)
    with pytest.raises(InputError, match="not a safetensors file"):
        load_policy(file)
    assert not mark.exists()

    with file.open("rb") as stream:  # the intruder is a real one
        pickle.load(stream) if dump is pickle.dump else torch.load(stream, weights_only=False)
    assert mark.exists()


def test_foreign_damaged_and_missing_files_are_refused(tmp_path):
    file = save_policy(GraphPolicy.initialised(SCENARIO), tmp_path)
    whole = file.read_bytes()

    file.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.raises(InputError, match="damaged: its checksum does not match"):
        load_policy(file)
    file.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match="damaged or not a safetensors file"):
        load_policy(file)
    save_file({"theta": torch.ones(2)}, file)
    with pytest.raises(InputError, match="was not written by feduplink"):
        load_policy(file)
    with pytest.raises(InputError, match="does not exist"):
        load_policy(tmp_path / "nowhere")
    with pytest.raises(InputError, match=r"^policy: "):
        load_policy(file.rename(tmp_path / "policy.pt"))


@pytest.mark.parametrize("transposed", [True, False])
@pytest.mark.parametrize("bias", [True, False])
def test_the_architecture_is_saved_with_the_weights(tmp_path, transposed, bias):
    architecture = GraphArchitecture(transposed_graph=transposed, bias=bias, silence_w=1e-20)
    policy = GraphPolicy.initialised(SCENARIO, 0, architecture)
    loaded = load_policy(save_policy(policy, tmp_path))
    assert loaded.architecture == architecture
    csi = torch.rand(50, 3, 3, generator=torch.Generator().manual_seed(0)) * 1e4 + 1
    assert torch.equal(loaded.allocate(csi), policy.allocate(csi))
    for other in ({"transposed_graph": not transposed}, {"bias": not bias}):
        another = GraphPolicy.initialised(SCENARIO, 0, architecture.model_copy(update=other))
        with torch.no_grad():
            for layer in (*policy.layers, *another.layers):
                layer.bias += 0.1 if isinstance(layer.bias, torch.nn.Parameter) else 0.0
        assert not torch.equal(another.allocate(csi), policy.allocate(csi))
