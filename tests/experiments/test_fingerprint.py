from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from feduplink.code_fingerprint import PACKAGE, code_fingerprint
from feduplink.experiments import EXPERIMENTS, fingerprint

ALL = ("POLICIES", "SETTINGS", "FEDERATIONS", "RESULTS")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of the package to change."""
    ignored = shutil.ignore_patterns("__pycache__")
    return shutil.copytree(PACKAGE, tmp_path / "feduplink", ignore=ignored)


def changed(tree: Path, file: str) -> set[str]:
    """The kinds of results that one more byte in a file makes anew."""

    def fingerprints() -> dict[str, str]:
        code_fingerprint.cache_clear()
        return {name: code_fingerprint(getattr(fingerprint, name), tree) for name in ALL}

    before = fingerprints()
    with (tree / file).open("ab") as opened:
        opened.write(b"\n")
    after = fingerprints()
    return {name for name in ALL if before[name] != after[name]}


def test_the_same_code_elsewhere_is_the_same(tree: Path):
    for name in ALL:
        parts = getattr(fingerprint, name)
        assert code_fingerprint(parts, tree) == code_fingerprint(parts)


@pytest.mark.parametrize(
    ("file", "kinds"),
    [
        ("scenario/goal.py", ALL),
        ("scenarios/default.yaml", ALL),
        ("channels/fading.py", ALL),
        ("policies/pdx.safetensors", ALL),
        ("learning/settings.py", ALL),
        ("optimum/dual_solver.py", ALL),
        ("experiments/judged_settings.py", ("SETTINGS", "RESULTS")),
        ("federated/averages.py", ("FEDERATIONS", "RESULTS")),
        ("federated/tasks/mnist_task.py", ("FEDERATIONS", "RESULTS")),
        ("experiments/cell_sweep.py", ("RESULTS",)),
        ("experiments/claims.py", ()),
        ("experiments/mnist.py", ()),
        ("report/style.py", ()),
        ("cli/reproduce.py", ()),
        ("metrics.py", ()),
    ],
)
def test_a_changed_byte_counts_where_it_matters(tree: Path, file: str, kinds: tuple[str, ...]):
    assert changed(tree, file) == set(kinds)


def test_a_new_file_and_another_name_count(tree: Path):
    (tree / "policies/new.py").touch()
    assert code_fingerprint(("policies",), tree) != code_fingerprint(("policies",))
    (tree / "problem.py").rename(tree / "problems.py")
    assert code_fingerprint(("problems",), tree) != code_fingerprint(("problem",))


def test_what_python_leaves_behind_does_not_count(tree: Path):
    (tree / "policies/__pycache__").mkdir()
    (tree / "policies/__pycache__/pdx.cpython-311.pyc").touch()
    assert code_fingerprint(("policies",), tree) == code_fingerprint(("policies",))


def test_a_part_that_is_not_there_is_an_error(tmp_path: Path):
    with pytest.raises(FileNotFoundError, match="neither a package nor a module"):
        code_fingerprint(("moon",), tmp_path)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_figure_has_a_module_of_its_name(name: str):
    assert code_fingerprint((f"experiments/{name.replace('-', '_')}",))


@pytest.mark.parametrize("name", ["POLICIES", "FEDERATIONS"])
def test_what_the_parts_import_is_among_them(name: str):
    """So that a new module of the package is not forgotten."""
    parts = getattr(fingerprint, name)
    files = [PACKAGE / f"{part}.py" for part in parts if (PACKAGE / f"{part}.py").exists()]
    files += [file for part in parts for file in (PACKAGE / part).rglob("*.py")]
    imported = {
        match
        for file in files
        for match in re.findall(r"from feduplink(?: import |\.)(\w+)", file.read_text("utf-8"))
    }
    # Refusals, files, devices, names, observers and tables change no number; parts of the
    # experiments are listed one by one.
    harmless = {"errors", "files", "tensorfile", "device", "made_for", "registry", "observing"}
    harmless |= {"experiments", "text_table", "comparison_table", "metrics"}
    harmless |= {"validated_model", "object_identity", "code_fingerprint"}
    assert imported - harmless <= set(parts)
