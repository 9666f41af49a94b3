from __future__ import annotations

import subprocess
import sys

import pytest

from feduplink import InputError, Scenario, evaluate, train
from feduplink.cli.commands import COMMANDS
from feduplink.workflows.options import options_of


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
def test_every_option_has_a_description(command):
    for name, field in options_of(command.workflow).model_fields.items():
        assert field.description, name


def test_a_wrong_option_is_refused_with_the_sentence_of_the_command_line():
    with pytest.raises(InputError, match=r"^channels_per_split: Input should be greater than or"):
        evaluate(Scenario(workers=2), ["max"], channels_per_split=0)
    with pytest.raises(InputError, match=r"^epoch: no such field, did you mean epochs\?"):
        train(Scenario(workers=2), "pdg", epoch=3)


def test_declaring_options_does_not_import_pytorch():
    program = "import sys, feduplink.workflows, feduplink.cli; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
