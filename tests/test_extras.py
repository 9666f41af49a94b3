"""Without an extra, commands that need it name the line that installs it; the others run."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path

PYPROJECT = Path(__file__).parents[1] / "pyproject.toml"
EXTRAS = (
    *("fastapi", "flint", "flwr", "jinja2", "markdown_it", "markupsafe", "matplotlib", "mlxtend"),
    *("onnx", "onnxruntime", "onnxscript", "pandas", "PIL", "pooch", "psutil", "ray", "shtab"),
    *("sionna", "tqdm", "uvicorn"),
)
#: By the extra that is missing.
COMMANDS = {
    "flower": ["federate", "--engine", "flower", "--rounds", "1"],
    "sionna": ["evaluate", "--objective", "tb-success", "--policies", "max"],
    "sionna, for channels": ["channels", "--channel-model", "sionna-umi", "--count", "1"],
    "serve": ["serve", "--port", "0"],
    "export": ["export", "--policy", "pdx"],
    "check": ["check", "proof.h5"],
    "digits": ["federate", "--rounds", "1"],
    "data": ["data", "--fetch", "mnist", "--data", "here", "--out", "data"],
    "page": ["report", "tried"],
    "page, for figures": ["reproduce", "interference", "--quick"],
}
#: Commands of the core, with a warning where figures are missing.
CORE = {
    "evaluate": ["evaluate", "--policies", "max", "--channels-per-split", "20", "--out", "tried"],
    "optimum": ["optimum", "--workers", "2", "--channels-per-split", "5"],
    "train": ["train", "--policy", "pdm", "--epochs", "1", "--channels-per-split", "20"],
    "schedule": ["schedule", "--workers", "2", "--channels-per-split", "2", "--kappa", "0"],
}
PROGRAM = """
import contextlib, io, json, sys
from feduplink.cli.command_line import main
from feduplink.cli.commands import COMMANDS
for command in COMMANDS:
    command.workflow
extras, commands = json.load(sys.stdin)
loaded = sorted(set(extras) & set(sys.modules))

sys.modules.update(dict.fromkeys(extras))  # importing them fails from here on
ended = {}
for name, words in commands.items():
    said = io.StringIO()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(said):
        status = main(words)
    ended[name] = status, said.getvalue()
json.dump([loaded, ended], sys.__stdout__)
"""


def test_commands_without_extras(tmp_path: Path):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        input=json.dumps([EXTRAS, {**CORE, **COMMANDS}]),
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
    )
    loaded, ended = json.loads(done.stdout.splitlines()[-1])
    assert loaded == []
    for name in CORE:
        status, said = ended[name]
        assert status == 0, said
        assert "figures are not written: matplotlib is not installed" in said
    for name in COMMANDS:
        status, said = ended[name]
        assert status == 2, name
        assert f"pip install 'feduplink[{name.partition(',')[0]}]'.\n" in said, said
        assert said.count("\n") == 1, said


def test_figures_without_matplotlib_name_the_line_that_installs_it():
    """All modules that draw; the page and the tables need no matplotlib."""
    code = """
import importlib, sys
sys.modules["matplotlib"] = None
import feduplink.reporting.comparison, feduplink.reporting.page
for name in "style federated optimum schedule sweep training".split():
    try:
        importlib.import_module(f"feduplink.reporting.{name}")
    except ValueError as error:
        print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (
        done.stdout.splitlines()
        == ["plots: matplotlib is not installed; accepted after pip install 'feduplink[plots]'."]
        * 6
    )


def test_the_core_needs_at_most_ten_packages():
    project = tomllib.loads(PYPROJECT.read_text(encoding="utf-8"))["project"]
    assert len(project["dependencies"]) <= 10
    extras = {"docs", "notebooks", "test", "dev", "all"}
    everything = project["optional-dependencies"]["all"][0]
    for extra in project["optional-dependencies"].keys() - extras:
        assert extra in everything
