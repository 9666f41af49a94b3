"""The wheel and the sdist are complete and work without the repository."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
pytestmark = pytest.mark.slow


def built(kind: str, source: Path, directory: Path) -> Path:
    """The file that is built."""
    words = [sys.executable, "-m", "build", "--no-isolation", f"--{kind}", "--outdir"]
    subprocess.run([*words, str(directory), str(source)], check=True, capture_output=True)
    [file] = directory.iterdir()
    return file


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built("wheel", ROOT, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The scripts of an environment with the wheel and the dependencies of this one.

    A path in a .pth file is searched, but .pth files in it are not read: an editable installation
    of the repository is not found through it.
    """
    home = tmp_path_factory.mktemp("environment")
    venv.create(home, with_pip=True)
    scripts = home / "bin"
    words = [scripts / "python", "-m", "pip", "install", "--no-deps", "--no-index", wheel]
    subprocess.run(words, check=True, capture_output=True)
    [packages] = home.glob("lib/python*/site-packages")
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return scripts


def feduplink(scripts: Path, cwd: Path, *words: str) -> str:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    ended = subprocess.run(
        [scripts / "feduplink", *words],
        cwd=cwd,
        env=environment | {"FEDUPLINK_CACHE": str(cwd / "cache")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def test_the_wheel_contains_all_files_of_the_package(wheel: Path):
    tracked = subprocess.run(
        ["git", "ls-files", "src/feduplink"], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.split()
    files = set(zipfile.ZipFile(wheel).namelist())
    assert {name.removeprefix("src/") for name in tracked} <= files
    assert not [name for name in files if "__pycache__" in name]


def test_the_sdist_builds_the_same_wheel(wheel: Path, tmp_path: Path):
    archive = built("sdist", ROOT, tmp_path / "sdist")
    with tarfile.open(archive) as tar:
        tar.extractall(tmp_path, filter="data")
    [source] = tmp_path.glob("feduplink-*")
    again = built("wheel", source, tmp_path / "wheel")
    assert sorted(zipfile.ZipFile(again).namelist()) == sorted(zipfile.ZipFile(wheel).namelist())


def test_shipped_scenarios_and_weights_are_installed(installed: Path, tmp_path: Path):
    code = "import feduplink; print(feduplink.__file__, feduplink.shipped_scenarios())"
    where = subprocess.run(
        [installed / "python", "-I", "-c", code],
        cwd=tmp_path,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    assert where.startswith(str(installed.parent))
    assert "interference-x2" in where
    words = ["evaluate", "--policies", "max,pdx", "--scenario", "interference-x2"]
    feduplink(installed, tmp_path, *words, "--channels-per-split", "60")
    metrics = json.loads((tmp_path / "runs/evaluate/metrics.json").read_text())
    assert metrics["policies"]["pdx"]["objective"] > metrics["policies"]["max"]["objective"]


def test_the_demo_runs_without_the_repository(installed: Path, tmp_path: Path):
    said = feduplink(installed, tmp_path, "demo", "--workers", "4")
    assert "has the highest objective" in said
    assert (tmp_path / "runs/demo/report.html").stat().st_size > 100_000
