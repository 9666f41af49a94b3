from __future__ import annotations

import importlib
import pickle
import sys
from pathlib import Path

import numpy as np
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
    PowerPolicy,
    RandomPower,
    Scenario,
    draw_csi,
    load_policy,
    save_policy,
)
from feduplink.channels import make_channels
from feduplink.lagrangian import DualPoint, Multipliers
from feduplink.policies import (
    UnrolledNetwork,
    UnrolledPolicy,
    UnselectedOrthogonal,
    UnselectedRandomPower,
    made_for,
    made_for_sentence,
    make_policies,
    make_policy,
    shipped_pdx,
)
from feduplink.problem import Problem
from feduplink.registry import POLICIES, SCHEDULED
from feduplink.settings import GraphArchitecture
from feduplink.storage.tensorfile import TensorFile, read_tensors, write_tensors

THREE = Scenario(workers=3)
CSI = draw_csi(THREE, 20, torch.Generator().manual_seed(3))


def half(csi, scenario):
    return 0.5 * float(scenario.max_power.max()) * np.ones(csi.shape[:-1])


def test_policy_is_made_from_name_object_or_class(tmp_path):
    saved = save_policy(FullPower(THREE), tmp_path / "saved")
    policy = FullPower(THREE)
    for what in ("max", "feduplink:FullPower", str(saved), saved.parent, FullPower, policy):
        assert isinstance(make_policy(what, THREE), FullPower)
    assert make_policy(policy, THREE) is policy


def test_function_is_a_policy_with_its_name():
    """It may return NumPy's numbers; Pmax holds for them as well."""
    policy = make_policy(half, THREE)
    assert policy.name == "half"
    expected = (THREE.max_power / 2).to(CSI).expand(CSI.shape[:-1])
    torch.testing.assert_close(policy.allocate(CSI), expected)
    loud = make_policy(lambda csi, scenario: 2 * scenario.max_power.expand(csi.shape[:-1]), THREE)
    assert (loud.allocate(CSI) == THREE.max_power.to(CSI)).all()


def test_a_function_is_found_by_its_module_and_read_back_from_a_file(tmp_path):
    policy = make_policy(f"{__name__}:half", THREE)
    again = load_policy(save_policy(policy, tmp_path))
    assert torch.equal(again.allocate(CSI), policy.allocate(CSI))


def test_powers_of_wrong_shape_are_refused_in_one_sentence():
    policy = make_policy(lambda csi, scenario: torch.ones(3), THREE)
    with pytest.raises(InputError, match=r"returned powers of shape \(3,\) .* accepted: \(20, 3\)"):
        policy.allocate(CSI)


def test_a_set_of_channels_and_an_array_of_its_training_split_tune_alike():
    channels = make_channels(THREE, CSI)
    one, other = (
        make_policy("openloop", THREE, channels=given).tensors()["setting"]
        for given in (channels, channels.training.numpy())
    )
    assert torch.equal(one, other)
    assert torch.equal(one, OpenLoop.tuned(THREE, channels.training).tensors()["setting"])


def test_without_channels_a_policy_is_tuned_on_those_of_the_scenario():
    one, other = (
        make_policy("openloop", THREE, channels=given, seed=4).tensors()["setting"]
        for given in (None, make_channels(THREE, seed=4))
    )
    assert torch.equal(one, other)


def test_policies_of_equal_name_get_different_labels():
    full = FullPower(THREE)
    found = make_policies(["max", full, half, FullPower(THREE)], THREE)
    assert list(found) == ["max", "max:2", "half", "max:3"]
    assert found["max:2"] is full
    assert list(make_policies({"a": "max", "b": half}, THREE)) == ["a", "b"]


def test_a_policy_for_another_number_of_workers_is_refused():
    dual = make_policy("dual", THREE, channels=CSI)
    with pytest.raises(InputError, match="dual takes exactly 3 workers; the scenario has 4"):
        make_policy(dual, Scenario(workers=4))


def test_unknown_options_are_refused():
    with pytest.raises(
        InputError, match=r"^kappa: max does not accept this option; accepted options: none\.$"
    ):
        make_policy("max", THREE, kappa=3.0)


SCENARIO = Scenario(workers=3, pmax_dbw=-30, rate_min=(0.1, 0.2, 0.3), weights=(1.0, 2.0, 3.0))
POINT = DualPoint(
    Multipliers(
        torch.linspace(0, 0.01, 6).double().view(2, 3), torch.tensor([0.2, 0.3, 0.5]).double()
    ),
    torch.linspace(0.1, 0.6, 6).double().view(2, 3),
)
SAVED = [
    FullPower(SCENARIO),
    RandomPower(SCENARIO, seed=3),
    UnselectedRandomPower(SCENARIO),
    Orthogonal(SCENARIO),
    UnselectedOrthogonal(SCENARIO),
    OpenLoop(SCENARIO, target=0.123, fraction=0.77),
    PerceptronPolicy.initialised(SCENARIO),
    GraphPolicy.initialised(SCENARIO),
    DualPolicy(SCENARIO, POINT),
    UnrolledPolicy(SCENARIO, UnrolledNetwork.initialised(), POINT),
]


@pytest.mark.parametrize("policy", SAVED, ids=lambda policy: policy.name)
def test_saved_policy_allocates_equal_powers(policy, tmp_path):
    csi = torch.rand(50, 3, 3, generator=torch.Generator().manual_seed(0)) * 1e4 + 1
    assert save_policy(policy, tmp_path / "run") == tmp_path / "run" / "policy.safetensors"
    loaded = load_policy(tmp_path / "run")
    assert type(loaded) is type(policy)
    assert loaded.scenario == policy.scenario
    assert torch.equal(loaded.allocate(csi), policy.allocate(csi))


@pytest.mark.parametrize("name", SCHEDULED)
def test_saved_schedule_policy_decides_equally(name: str, tmp_path: Path):
    policy = make_policy(name, SCENARIO, **({} if name == "ideal" else {"kappa": 3.0}))
    loaded = load_policy(save_policy(policy, tmp_path))
    assert type(loaded) is type(policy)
    assert loaded.scenario == SCENARIO
    assert loaded.tensors() == policy.tensors()


def test_every_loadable_policy_is_covered():
    assert {policy.name for policy in SAVED} | set(SCHEDULED) == set(POLICIES.names())


def write(path: Path, policy: str, tensors: dict[str, torch.Tensor], **header: object) -> None:
    scenario = {"scenario": SCENARIO.model_dump(mode="json")}
    write_tensors(path, "policy", TensorFile(tensors, {"policy": policy, **scenario, **header}))


@pytest.mark.parametrize(
    ("policy", "tensors", "header", "sentence"),
    [
        (
            "dqn",
            {},
            {},
            r"refers to 'dqn', whose code is not imported; accepted after importing its module",
        ),
        ("pdg", {}, {}, r"does not fit a pdg: .*Missing key"),
        ("pdg", PerceptronPolicy(SCENARIO).state_dict(), {}, r"does not fit a pdg"),
        ("pdm", PerceptronPolicy(Scenario(workers=5)).state_dict(), {}, r"does not fit a pdm"),
        ("openloop", {"setting": torch.ones(3)}, {}, r"does not fit a openloop"),
        ("openloop", {"setting": torch.tensor(1.0)}, {}, r"does not fit a openloop"),
        ("openloop", {}, {}, r"does not fit a openloop"),
        ("max", {}, {"scenario": {"workers": -1}}, r"^workers: .*greater than or equal to 1"),
        ("max", {}, {"scenario": None}, r"contains no scenario"),
    ],
)
def test_file_with_invalid_tensors_or_scenario_is_refused(
    tmp_path, policy, tensors, header, sentence
):
    file = tmp_path / "policy.safetensors"
    write(file, policy, tensors, **header)
    with pytest.raises(InputError, match=sentence) as refusal:
        load_policy(file)
    assert "\n" not in str(refusal.value)


class Share(PowerPolicy):
    """A share of Pmax, as a user would write it."""

    name = "share"

    def __init__(self, scenario: Scenario, share: float = 0.5) -> None:
        super().__init__(scenario)
        self.share = share

    def powers(self, csi: torch.Tensor) -> torch.Tensor:
        return csi.new_full(csi.shape[:-1], self.share * float(self.scenario.max_power))

    def tensors(self) -> dict[str, torch.Tensor]:
        return {"share": torch.tensor(self.share, dtype=torch.float64)}

    @classmethod
    def from_tensors(cls, scenario: Scenario, tensors: dict[str, torch.Tensor]) -> Share:
        return cls(scenario, float(tensors["share"]))


@pytest.mark.parametrize("registered", [True, False])
def test_user_defined_policy_is_saved_and_loaded(registered, tmp_path, register):
    if registered:
        register(POLICIES, "mine", Share)
    assert POLICIES.name_of(Share) == ("mine" if registered else f"{__name__}:Share")
    loaded = load_policy(save_policy(Share(SCENARIO, 0.25), tmp_path))
    assert type(loaded) is Share
    assert loaded.scenario == SCENARIO
    assert loaded.allocate(torch.ones(3, 3)).tolist() == pytest.approx([0.25e-3] * 3)


OWN_MODULE = """
from feduplink.policies import FullPower


class Loud(FullPower):
    name = "loud"
"""


def test_a_policy_whose_module_is_not_imported_is_refused_by_name(tmp_path, monkeypatch):
    (tmp_path / "own_module.py").write_text(OWN_MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    loud = importlib.import_module("own_module").Loud
    file = save_policy(loud(SCENARIO), tmp_path)
    assert type(load_policy(file)) is loud
    monkeypatch.delitem(sys.modules, "own_module")
    with pytest.raises(
        InputError,
        match=r"refers to 'own_module:Loud', whose code is not imported; accepted after imp",
    ):
        load_policy(file)
    assert "own_module" not in sys.modules
    again = importlib.import_module("own_module").Loud
    assert type(load_policy(file)) is again


@pytest.mark.parametrize("place", ["policy", "objective", "constraint"])
def test_a_file_that_names_a_harmful_module_does_not_import_it(place, tmp_path, monkeypatch):
    mark = tmp_path / "imported"
    (tmp_path / "harmful_code.py").write_text(f"open({str(mark)!r}, 'w')")
    monkeypatch.syspath_prepend(tmp_path)
    name = "harmful_code:Thing"
    fields = {
        "policy": {},
        "objective": {"objective": name},
        "constraint": {"constraints": [f"{name} >= 1"]},
    }
    file = tmp_path / "policy.safetensors"
    scenario = {**SCENARIO.model_dump(mode="json"), **fields[place]}
    write(file, name if place == "policy" else "max", {}, scenario=scenario)
    with pytest.raises(
        InputError, match=r"refers to 'harmful_code:Thing', whose code is not imported"
    ):
        load_policy(file)
    assert "harmful_code" not in sys.modules
    assert not mark.exists()


def test_file_that_names_another_object_is_refused(tmp_path):
    file = tmp_path / "policy.safetensors"
    write(file, "pathlib:Path", {})
    with pytest.raises(InputError, match=r"^policy: <class .*Path'> is not a policy; accepted: a"):
        load_policy(file)


def test_user_defined_measures_are_saved_with_the_policy(tmp_path):
    scenario = SCENARIO.replace(constraints="link.own_measures:AveragePower <= 0.001")
    importlib.import_module("link.own_measures")
    assert load_policy(save_policy(FullPower(scenario), tmp_path)).scenario == scenario


@pytest.mark.parametrize("kind", [DualPolicy, UnrolledPolicy])
def test_policy_for_a_given_problem_cannot_be_saved(kind, tmp_path):
    parts = (UnrolledNetwork.initialised(), POINT) if kind is UnrolledPolicy else (POINT,)
    policy = kind(SCENARIO, *parts, Problem.from_scenario(SCENARIO.replace(objective="rate")))
    with pytest.raises(
        InputError,
        match=rf"^policy: this {kind.name} was made for a given problem and cannot be saved",
    ):
        save_policy(policy, tmp_path)
    assert list(tmp_path.iterdir()) == []


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


def test_file_with_unexpected_tensors_is_refused(tmp_path: Path):
    file = save_policy(RandomPower(SCENARIO), tmp_path)
    content = read_tensors(file, "policy")
    tensors = {**content.tensors, "selection": torch.tensor(False)}
    write_tensors(file, "policy", TensorFile(tensors, content.header))
    with pytest.raises(
        InputError, match=r"does not fit a rand: the tensors selection are missing or"
    ):
        load_policy(file)


HERE = Scenario()


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("objective", "rate"),
        ("utility", "proportional-fairness"),
        ("weights", "uniform"),
        ("rate_min", 0.5),
        ("ee_min", (50.0,) * 8),
        ("interference", 2.0),
        ("channel_model", "hata-urban"),
        ("antennas", 4),
        ("workers", 12),
        ("csi_noise", 1.0),
    ],
)
def test_made_for_lists_every_differing_field(field: str, value: object):
    differences = made_for(FullPower(HERE.replace(**{field: value})), HERE)
    dumped = HERE.replace(**{field: value}).model_dump(mode="json")[field]
    assert differences == {field: (dumped, HERE.model_dump(mode="json")[field])}


def test_equal_values_listed_per_worker_are_not_a_difference():
    weights = tuple(HERE.worker_weights.tolist())
    same = HERE.replace(rate_min=(0.7,) * 8, pmax_dbw=(-20.0,) * 8, weights=weights)
    assert made_for(FullPower(same), HERE) == {}


def test_margin_of_pdx_is_not_a_difference():
    policy = shipped_pdx()
    assert (policy.point.thresholds > policy.problem.thresholds).all()
    assert made_for(policy, HERE) == {}
    assert set(made_for(policy, HERE.replace(rate_min=0.8))) == {"rate_min"}


def test_sentence_states_both_values_and_the_limit_of_powers():
    sentence = made_for_sentence("pdg", {"pmax_dbw": (0.0, -20.0), "rate_min": ([0.5, 0.7], 0.7)})
    assert sentence == (
        "pdg was made for another scenario: Pmax 30 dBm (here 10 dBm), rate_min 0.5 to 0.7 (here "
        "0.7); its powers are cut at 10 dBm"
    )


@pytest.mark.parametrize("make", [make_policy, lambda what, given: make_policies([what], given)])
def test_scenario_of_wrong_type_is_refused(make):
    with pytest.raises(InputError, match=r"^scenario: int is not accepted; accepted: a feduplink"):
        make("max", 3)


@pytest.mark.parametrize("alias", list(POLICIES.aliases))
def test_an_alias_makes_the_policy_that_it_stands_for(alias):
    scenario = Scenario(workers=2)
    channels = torch.tensor([[[1e4, 3.0], [2.0, 1e4]]] * 6)
    name = POLICIES.aliases[alias]
    made = make_policies([alias, name], scenario, channels=channels)
    assert list(made) == [name]
    assert made[name].name == name
