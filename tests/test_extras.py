"""Extras are imported on demand, and a command without its extra names it in one sentence."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

EXTRAS = (
    *("fastapi", "flint", "flwr", "onnx", "onnxruntime", "onnxscript"),
    *("psutil", "ray", "sionna", "uvicorn"),
)
#: By the missing extra.
COMMANDS = {
    "flower": ["federate", "--engine", "flower", "--rounds", "1"],
    "sionna": ["evaluate", "--objective", "tb-success", "--policies", "max"],
    "sionna, for channels": ["channels", "--channel-model", "sionna-umi", "--count", "1"],
    "serve": ["serve", "--port", "0"],
    "export": ["export", "--policy", "pdx"],
    "check": ["check", "proof.h5"],
}
PROGRAM = """
import contextlib, importlib, io, json, pkgutil, sys
import feduplink.workflows
from feduplink.cli import main
for module in pkgutil.iter_modules(feduplink.workflows.__path__, "feduplink.workflows."):
    importlib.import_module(module.name)
extras, commands = json.load(sys.stdin)
loaded = sorted(set(extras) & set(sys.modules))
sys.modules.update(dict.fromkeys(extras))  # importing them fails from here on
ended = {}
for name, words in commands.items():
    with contextlib.redirect_stderr(io.StringIO()) as said:
        status = main(words)
    ended[name] = status, said.getvalue()
json.dump([loaded, ended], sys.__stdout__)
"""


def test_commands_without_their_extra_name_it(tmp_path: Path):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        input=json.dumps([EXTRAS, COMMANDS]),
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
    )
    loaded, ended = json.loads(done.stdout.splitlines()[-1])
    assert loaded == []
    for name, (status, said) in ended.items():
        assert status == 2, name
        assert f"pip install 'feduplink[{name.partition(',')[0]}]'.\n" in said, said
        assert said.count("\n") == 1, said
