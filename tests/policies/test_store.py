from __future__ import annotations

import numpy as np
import pytest
import torch

from feduplink import FullPower, InputError, OpenLoop, Scenario, draw_csi, load_policy, save_policy
from feduplink.channels import make_channels
from feduplink.policies import make_policies, make_policy

THREE = Scenario(workers=3)
CSI = draw_csi(THREE, 20, torch.Generator().manual_seed(3))


def half(csi, scenario):
    return 0.5 * float(scenario.pmax_w.max()) * np.ones(csi.shape[:-1])


def test_what_names_a_policy_makes_it(tmp_path):
    saved = save_policy(FullPower(THREE), tmp_path / "saved")
    policy = FullPower(THREE)
    for what in ("max", "feduplink:FullPower", str(saved), saved.parent, FullPower, policy):
        assert isinstance(make_policy(what, THREE), FullPower)
    assert make_policy(policy, THREE) is policy


def test_a_function_is_a_policy_of_its_name():
    """It may return NumPy's numbers; Pmax holds for them as well."""
    policy = make_policy(half, THREE)
    assert policy.name == "half"
    expected = (THREE.pmax_w / 2).to(CSI).expand(CSI.shape[:-1])
    torch.testing.assert_close(policy.allocate(CSI), expected)
    loud = make_policy(lambda csi, scenario: 2 * scenario.pmax_w.expand(csi.shape[:-1]), THREE)
    assert (loud.allocate(CSI) == THREE.pmax_w.to(CSI)).all()


def test_a_function_is_found_by_its_module_and_read_back_from_a_file(tmp_path):
    policy = make_policy(f"{__name__}:half", THREE)
    again = load_policy(save_policy(policy, tmp_path))
    assert torch.equal(again.allocate(CSI), policy.allocate(CSI))


def test_powers_of_a_wrong_shape_are_one_sentence():
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


def test_labels_tell_policies_of_one_name_apart():
    full = FullPower(THREE)
    found = make_policies(["max", full, half, FullPower(THREE)], THREE)
    assert list(found) == ["max", "max:2", "half", "max:3"]
    assert found["max:2"] is full
    assert list(make_policies({"a": "max", "b": half}, THREE)) == ["a", "b"]


def test_a_policy_for_another_number_of_workers_is_refused():
    dual = make_policy("dual", THREE, channels=CSI)
    with pytest.raises(InputError, match="dual takes exactly 3 workers; there are 4"):
        make_policy(dual, Scenario(workers=4))


def test_options_that_a_policy_does_not_take_are_refused():
    with pytest.raises(
        InputError, match=r"^kappa: max does not take it; accepted options: none\.$"
    ):
        make_policy("max", THREE, kappa=3.0)
