"""Importing what takes seconds."""

from __future__ import annotations

import gc
import subprocess
import sys
from pathlib import Path

import pytest

from feduplink.cli.slow_imports import loading


@pytest.fixture
def frozen(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """An entry for every time that what is loaded was left out of collection."""
    entries: list[bool] = []
    monkeypatch.setattr(gc, "freeze", lambda: entries.append(True))
    return entries


def test_a_new_module_is_left_out_of_garbage_collection(frozen: list[bool]):
    with loading("something new", "not_imported_yet"):
        assert not gc.isenabled()
    assert gc.isenabled()
    assert frozen == [True]


def test_what_is_loaded_already_changes_nothing(frozen: list[bool]):
    """A program that calls the commands keeps its garbage collectable."""
    with loading("something known", __name__):
        assert gc.isenabled()
    assert frozen == []


def test_collection_goes_on_where_the_import_fails(frozen: list[bool]):
    with pytest.raises(ImportError), loading("nothing", "no_such_module"):
        import no_such_module  # noqa: F401
    assert gc.isenabled()


def test_a_program_without_collection_stays_so(frozen: list[bool]):
    gc.disable()
    try:
        with loading("something new", "not_imported_yet"):
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


#: Both PyTorch and what the command draws with.
A_COMMAND = """
import gc, sys
from feduplink.cli import main
main(["evaluate", "--policies", "max", "--channels-per-split", "20", "--out", sys.argv[1]])
assert {"torch", "matplotlib.figure"} <= set(sys.modules)
modules = [module for module in sys.modules.values() if hasattr(module, "__dict__")]
collected = {id(entry) for entry in gc.get_objects()}
late = [module.__name__ for module in modules if id(module) in collected]
late = [name for name in late if name.partition(".")[0] in ("torch", "matplotlib", "feduplink")]
assert len(late) < 20, late
"""


def test_a_command_loads_everything_large_uncollected(tmp_path: Path):
    """A second of looking for garbage in PyTorch and matplotlib, half of it at the end."""
    subprocess.run([sys.executable, "-c", A_COMMAND, tmp_path], check=True, stdout=subprocess.PIPE)
