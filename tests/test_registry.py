from __future__ import annotations

import sys
from importlib.metadata import EntryPoint, EntryPoints

import pytest

from feduplink import InputError, registry
from feduplink.registry import Registry


class Loud:
    pass


class Outer:
    class Inner:
        pass


@pytest.fixture
def things() -> Registry[type]:
    return Registry("thing", "feduplink.test-things", {"fraction": "fractions:Fraction"})


def declare(monkeypatch: pytest.MonkeyPatch, **paths: str) -> None:
    group = "feduplink.test-things"
    declared = EntryPoints(EntryPoint(name, path, group) for name, path in paths.items())
    monkeypatch.setattr(registry, "entry_points", lambda: declared)
    monkeypatch.setattr(registry, "_installed", registry._installed.__wrapped__)


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


@pytest.mark.parametrize("name", ["fraction", "loud"])
def test_a_taken_name_is_refused(things, name):
    things.register("loud", Loud)
    with pytest.raises(InputError, match=f"{name!r} is taken"):
        things.register(name, Outer)


def test_entry_points_of_installed_packages_are_found(things, monkeypatch):
    declare(monkeypatch, loud=f"{__name__}:Loud", inner=f"{__name__}:Outer.Inner")
    assert things.find("loud") is Loud
    assert things.find("inner") is Outer.Inner
    assert things.names() == ("fraction", "inner", "loud")
    assert things.name_of(Outer.Inner) == "inner"


def test_an_entry_point_does_not_replace_a_shipped_one(things, monkeypatch):
    from fractions import Fraction

    declare(monkeypatch, fraction=f"{__name__}:Loud")
    assert things.find("fraction") is Fraction


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
    with pytest.raises(InputError, match=r"run.bin holds 'harmful:Thing', whose code is not here"):
        things.find_in_file("harmful:Thing", "run.bin")
    assert "harmful" not in sys.modules
    assert things.find_in_file(f"{__name__}:Loud", "run.bin") is Loud
    assert things.find_in_file("fraction", "run.bin").__name__ == "Fraction"
