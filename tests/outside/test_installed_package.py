"""Somebody else's package, installed beside ours: its parts work in every command."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

PROJECT = Path(__file__).parent / "project"
SMALL = ["--channels-per-split", "60", "--channel-model", "ring", "--workers", "4"]
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


class Installed:
    """Runs commands in an environment that has the package."""

    def __init__(self, site: Path, runs: Path) -> None:
        self.runs = runs
        paths = [str(site), *filter(None, [os.environ.get("PYTHONPATH")])]
        self._environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}

    def __call__(self, *words: str, out: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "feduplink", *words, "--out", str(self.runs / out)],
            env=self._environment,
            cwd=self.runs,
            capture_output=True,
            text=True,
            check=False,
        )

    def metrics(self, *words: str, out: str) -> dict:
        done = self(*words, out=out)
        assert done.returncode == 0, done.stderr
        return json.loads((self.runs / out / "metrics.json").read_text("utf-8"))


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    directory = tmp_path_factory.mktemp("outside")
    site, runs = directory / "site", directory / "runs"
    runs.mkdir()
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index"]
    wheel = write_wheel(directory)
    subprocess.run([*pip, "--target", str(site), str(wheel)], check=True)
    return Installed(site, runs)


@pytest.fixture(scope="module")
def trained(installed: Installed) -> dict:
    return installed.metrics(
        *("train", "--policy", "tinynet", "--epochs", "40", *SMALL, *LIMITED, "--objective"),
        "bits",
        out="trained",
    )


def test_its_policy_is_trained_for_its_objective_and_constraint_on_its_channels(trained):
    assert trained["policy"] == "tinynet"
    assert trained["scenario"]["channel_model"] == "ring"
    assert 0 < trained["test"]["power_max"] < 0.01
    assert trained["test"]["objective"] > 0


def test_all_of_it_is_compared(installed, trained):
    found = installed.metrics(
        *("evaluate", "--policies", "max,halfpower,trained", *SMALL, *LIMITED, "--objective"),
        "bits",
        out="compared",
    )
    assert set(found["policies"]) == {"max", "halfpower", "tinynet"}
    assert found["policies"]["max"]["power_max"] == pytest.approx(0.01)
    assert found["policies"]["max"]["feasible"] is False
    assert found["policies"]["halfpower"]["power_max"] == pytest.approx(0.005)
    table = (installed.runs / "compared" / "comparison.md").read_text("utf-8")
    assert "power <= 0.006" in table
    assert "power (W): the worst worker's mean over all rounds" in table
    assert "#123456" in (installed.runs / "compared" / "comparison.svg").read_text("utf-8")


def test_its_constraint_is_solved_and_proved(installed):
    found = installed.metrics("optimum", *SMALL, *LIMITED, "--budget", "20", out="optimum")
    best = found["optimum"]
    assert best["power_max"] <= 0.006 * (1 + 1e-9)
    assert best["objective"] <= best["upper_bound"] <= best["objective"] + 0.01
    assert found["policies"]["dual"]["power_max"] == pytest.approx(0.006, rel=0.05)


def test_what_has_no_bound_is_refused_before_anything_takes_long(installed):
    done = installed("optimum", *SMALL, "--objective", "bits", out="refused")
    assert done.returncode == 2
    assert done.stderr.startswith("feduplink: certificate: has no bound with bits; accepted: ")
    assert len(done.stderr.splitlines()) == 1


def test_its_channels_are_drawn_and_its_policy_federates_its_task_with_its_average(installed):
    channels = installed.metrics(
        "channels", "--count", "20", "--channel-model", "ring", "--workers", "4", out="channels"
    )
    assert channels["count"] == 20
    found = installed.metrics(
        *("federate", "--task", "line", "--aggregation", "halfway", "--channel-model", "ring"),
        *("--workers", "4", "--policies", "ideal,halfpower", "--rounds", "5"),
        out="federated",
    )
    assert found["task"] == "line"
    assert found["aggregation"] == "halfway"
    assert set(found["policies"]) == {"ideal", "halfpower"}


def test_it_is_on_the_page(installed, trained):
    done = installed("report", "trained", out="page")
    assert done.returncode == 0, done.stderr
    assert "tinynet" in (installed.runs / "page" / "report.html").read_text("utf-8")


def test_its_names_are_offered(installed):
    done = installed("evaluate", "--policies", "halfpowr", *SMALL, out="typo")
    assert done.returncode == 2
    assert "did you mean halfpower?" in done.stderr
