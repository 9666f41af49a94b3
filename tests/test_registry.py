from __future__ import annotations

import subprocess
import sys

import pytest

from feduplink import InputError
from feduplink.registry import Registry


class Loud:
    pass


class Outer:
    class Inner:
        pass


@pytest.fixture
def things() -> Registry[type]:
    return Registry("thing", "feduplink.test-things", {"fraction": "fractions:Fraction"})


def test_shipped_ones_are_imported_when_asked_for(things):
    from fractions import Fraction

    assert things.find("fraction") is Fraction
    assert things.name_of(Fraction) == "fraction"


def test_registered_ones_are_found_and_listed(things):
    assert things.register("loud", Loud) is Loud
    assert things.find("loud") is Loud
    assert things.names() == ("fraction", "loud")
    assert things.name_of(Loud) == "loud"
    things.register("loud", Loud)  # again, as a reloaded module does


def test_an_unregistered_name_may_be_taken_again(things):
    things.register("loud", Loud)
    things.unregister("loud")
    assert things.names() == ("fraction",)
    assert things.register("loud", Outer) is Outer
    things.unregister("fraction")
    assert things.names() == ("fraction", "loud")


@pytest.mark.parametrize("name", ["fraction", "loud"])
def test_a_taken_name_is_refused(things, name):
    things.register("loud", Loud)
    with pytest.raises(InputError, match=f"{name!r} is in use"):
        things.register(name, Outer)


ENTRY_POINTS = """
[feduplink.test-things]
random = random:Random
mapping = collections:abc.Mapping
fraction = decimal:Decimal
"""

#: In a process of its own: installed packages are looked at once per process.
LOOKUP = """
from collections.abc import Mapping
from fractions import Fraction
from random import Random
from feduplink.registry import Registry
things = Registry("thing", "feduplink.test-things", {"fraction": "fractions:Fraction"})
assert things.names() == ("fraction", "mapping", "random"), things.names()
assert things.find("random") is Random
assert things.find("mapping") is Mapping
assert things.name_of(Random) == "random"
assert things.find("fraction") is Fraction, "an entry point does not replace a shipped one"
"""


def test_entry_points_of_installed_packages_are_found(tmp_path):
    info = tmp_path / "things-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: things\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(ENTRY_POINTS)
    (tmp_path / "look_up.py").write_text(LOOKUP)  # its directory is on the path
    command = [sys.executable, str(tmp_path / "look_up.py")]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")


def test_an_object_is_found_by_its_module(things):
    assert things.find(f"{__name__}:Outer.Inner") is Outer.Inner
    assert things.name_of(Outer.Inner) == f"{__name__}:Outer.Inner"


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        (
            "fracton",
            r"'fracton' is unknown, did you mean fraction\? accepted: fraction, or package",
        ),
        ("zzz", "'zzz' is unknown; accepted"),
        ("no.such.module:Thing", "No module named 'no'"),
        ("fractions:Nothing", "no attribute 'Nothing'"),
        (":Thing", "cannot be imported"),
    ],
)
def test_what_is_not_there_is_refused_in_one_sentence(things, name, reason):
    with pytest.raises(InputError, match=reason):
        things.find(name)


def test_a_file_imports_nothing(things, tmp_path, monkeypatch):
    (tmp_path / "harmful.py").write_text("raise SystemExit('imported')")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(
        InputError, match=r"run.bin refers to 'harmful:Thing', whose code is not imported"
    ):
        things.find_in_file("harmful:Thing", "run.bin")
    assert "harmful" not in sys.modules
    assert things.find_in_file(f"{__name__}:Loud", "run.bin") is Loud
    assert things.find_in_file("fraction", "run.bin").__name__ == "Fraction"


def test_an_alias_stands_for_a_name():
    things = Registry("thing", "feduplink.test-things", {"f": "fractions:Fraction"}, {"ratio": "f"})
    assert things.find("ratio") is things.find("f")
    assert things.check("ratio") == "f"
    assert things.names() == ("f",)
    with pytest.raises(InputError, match="the name 'ratio' is in use"):
        things.register("ratio", Loud)
    with pytest.raises(InputError, match=r"did you mean ratio\?"):
        things.find("ration")
