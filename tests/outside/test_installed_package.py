"""Somebody else's package, installed beside ours: its parts work in every command."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest

PROJECT = Path(__file__).parent / "project"
SMALL = ["--channels-per-split", "60", "--channel-model", "ring", "--workers", "4"]
BITS = ["--objective", "bits"]
LIMITED = ["--constraints", "power <= 0.006", "--rate-min", "0.5", "--ee-min", "0"]


def write_wheel(directory: Path) -> Path:
    """The project as a wheel, which is a zip file: no build tool has to be there."""
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text("utf-8"))["project"]
    name, version = project["name"], project["version"]
    info = f"{name}-{version}.dist-info"
    groups = [
        f"[{group}]\n" + "".join(f"{entry} = {path}\n" for entry, path in entries.items())
        for group, entries in project["entry-points"].items()
    ]
    wheel = directory / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for file in sorted((PROJECT / name).glob("*.py")):
            archive.write(file, f"{name}/{file.name}")
        archive.writestr(
            f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        )
        archive.writestr(
            f"{info}/WHEEL",
            "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        )
        archive.writestr(f"{info}/entry_points.txt", "\n".join(groups))
        archive.writestr(f"{info}/RECORD", "")
    return wheel


#: Runs all commands in one process that has the package: starting Python takes longest.
DRIVER = """
import contextlib, io, json, sys
from feduplink.cli.command_line import main
results = {}
for name, words in json.load(sys.stdin).items():
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = main([*words, "--out", name])
    results[name] = [status, out.getvalue(), err.getvalue()]
json.dump(results, sys.stdout)
"""

COMMANDS = {
    "trained": ["train", "--policy", "tinynet", "--epochs", "40", *SMALL, *LIMITED, *BITS],
    "compared": ["evaluate", "--policies", "max,halfpower,trained", *SMALL, *LIMITED, *BITS],
    "optimum": ["optimum", *SMALL, *LIMITED, "--max-boxes", "200000"],
    "refused": ["optimum", *SMALL, *BITS],
    "channels": ["channels", "--count", "20", "--channel-model", "ring", "--workers", "4"],
    "federated": [
        *("federate", "--task", "line", "--aggregation", "halfway", "--channel-model", "ring"),
        *("--workers", "4", "--policies", "ideal,halfpower", "--rounds", "5"),
    ],
    "page": ["report", "trained", "compared"],
    "typo": ["evaluate", "--policies", "halfpowr", *SMALL],
}


@dataclass(frozen=True)
class Run:
    directory: Path
    status: int
    output: str
    errors: str

    @property
    def metrics(self) -> dict:
        assert self.status == 0, self.errors
        return json.loads((self.directory / "metrics.json").read_text("utf-8"))


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Run]:
    directory = tmp_path_factory.mktemp("outside")
    site, work = directory / "site", directory / "work"
    work.mkdir()
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index"]
    subprocess.run([*pip, "--target", str(site), str(write_wheel(directory))], check=True)
    paths = [str(site), *filter(None, [os.environ.get("PYTHONPATH")])]
    done = subprocess.run(
        [sys.executable, "-c", DRIVER],
        input=json.dumps(COMMANDS),
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        cwd=work,
        capture_output=True,
        text=True,
        check=True,
    )
    return {name: Run(work / name, *found) for name, found in json.loads(done.stdout).items()}


def test_its_policy_is_trained_for_its_objective_and_constraint_on_its_channels(runs):
    trained = runs["trained"].metrics
    assert trained["policy"] == "tinynet"
    assert trained["scenario"]["channel_model"] == "ring"
    assert 0 < trained["test"]["power_max"] < 0.01
    assert trained["test"]["objective"] > 0


def test_all_of_it_is_compared(runs):
    found = runs["compared"].metrics["policies"]
    assert set(found) == {"max", "halfpower", "tinynet"}
    assert found["max"]["power_max"] == pytest.approx(0.01)
    assert found["max"]["feasible"] is False
    assert found["halfpower"]["power_max"] == pytest.approx(0.005)
    table = (runs["compared"].directory / "comparison.md").read_text("utf-8")
    assert "power <= 0.006" in table
    assert "Power (W): the worst worker's mean over all rounds" in table
    assert "#123456" in (runs["compared"].directory / "comparison.svg").read_text("utf-8")


def test_its_constraint_is_solved_and_proved(runs):
    found = runs["optimum"].metrics
    best = found["optimum"]
    assert best["power_max"] <= 0.006 * (1 + 1e-9)
    assert best["objective"] <= best["upper_bound"] <= best["objective"] + 0.01
    assert found["policies"]["dual"]["power_max"] == pytest.approx(0.006, rel=0.05)


def test_what_has_no_bound_is_refused_in_one_sentence(runs):
    refused = runs["refused"]
    assert refused.status == 2
    assert refused.errors.startswith(
        "feduplink: certificate: no upper bound is known for the measure bits; accepted: "
    )
    assert len(refused.errors.splitlines()) == 1


def test_its_channels_are_drawn_and_its_policy_federates_its_task_with_its_average(runs):
    assert runs["channels"].metrics["count"] == 20
    found = runs["federated"].metrics
    assert found["task"] == "line"
    assert found["aggregation"] == "halfway"
    assert set(found["policies"]) == {"ideal", "halfpower"}


def test_it_is_on_the_page(runs):
    assert runs["page"].status == 0, runs["page"].errors
    page = (runs["page"].directory / "report.html").read_text("utf-8")
    assert "tinynet" in page
    assert "halfpower" in page


def test_its_names_are_offered(runs):
    assert runs["typo"].status == 2
    assert "did you mean halfpower?" in runs["typo"].errors
