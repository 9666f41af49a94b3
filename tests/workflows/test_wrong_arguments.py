"""A wrong argument from Python is refused in one sentence, as on the command line."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import feduplink as fu

SCENARIO = fu.Scenario(workers=2)
CSI = torch.tensor([[[1e4, 3.0], [2.0, 1e4]]] * 6)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (
            lambda: fu.evaluate("max", CSI, SCENARIO),
            r"evaluate: too many positional arguments; accepted: evaluate\(scenario, policies\)",
        ),
        (lambda: fu.evaluate(), r"evaluate: missing a required argument: 'scenario'"),
        (lambda: fu.evaluate("max", ["max"]), r"scenario: str is not accepted"),
        (lambda: fu.find_optimum(CSI, SCENARIO), r"scenario: Tensor is not accepted"),
        (
            lambda: fu.federate(SCENARIO, "digits", ["max"], round=1),
            r"round: no such field, did you mean rounds\?",
        ),
        (
            lambda: fu.evaluate(SCENARIO, ["max"], chanels=CSI),
            r"chanels: no such field, did you mean channels\?",
        ),
        (lambda: fu.evaluate(SCENARIO, [3], channels=CSI), r"policy: 3 is not a policy; accepted"),
        (lambda: fu.make_channels(SCENARIO, 3, seed="a"), r"seed: 'a' is not accepted"),
        (lambda: fu.make_channels(SCENARIO, 3, seed=-1), r"seed: -1 is not accepted"),
        (lambda: fu.draw_csi(SCENARIO, 3, 0), r"generator: 0 is not a torch.Generator"),
        (
            lambda: fu.link.sinr(torch.ones(2, 2), torch.ones(2, 2, 2)),
            r"power: shape \(2, 2, 2\) does not match csi",
        ),
    ],
)
def test_a_wrong_argument_is_one_sentence(call, sentence):
    with pytest.raises(fu.InputError, match=sentence) as refused:
        call()
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("channels", [CSI, CSI.numpy(), CSI.tolist()])
def test_arrays_are_written_as_channels(tmp_path, channels):
    fu.write_channels(tmp_path / "cell.h5", channels)
    np.testing.assert_array_equal(fu.read_channels(tmp_path / "cell.h5").csi, CSI)


def test_a_python_file_is_not_a_policy(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text("class Mine: ...")
    with pytest.raises(fu.InputError, match="is a Python file; accepted: mine:CLASS"):
        fu.make_policy(str(file), SCENARIO)
