"""The table of hyper-parameters in docs/paper-settings.md says what the presets hold."""

from __future__ import annotations

import re

import pytest

from feduplink import TrainingSettings
from feduplink.policies import GRAPH_HIDDEN, PERCEPTRON_HIDDEN, GraphPolicy, PerceptronPolicy
from feduplink.settings import GraphArchitecture
from feduplink.training import Preset

from .markdown import ROOT

#: What no figure depends on.
NOT_SHOWN = {"checkpoint_every"}
NOT_STATED = "–"
KINDS = {"pdg": GraphPolicy, "pdm": PerceptronPolicy}


def table() -> list[dict[str, str]]:
    text = (ROOT / "docs/paper-settings.md").read_text(encoding="utf-8")
    lines = text.split("## Hyper-parameters", 1)[1].split("\n## ", 1)[0].splitlines()
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in lines
        if line.startswith("|")
    ]
    header, _rule, *body = rows
    return [dict(zip(header, row, strict=True)) for row in body]


ROWS = {field[1]: row for row in table() if (field := re.search(r"\(`(\w+)`\)$", row["parameter"]))}


def value_in(cell: str, policy: str, like: object) -> object:
    """The value for a policy in ``1e-3`` or ``5e-4 (`pdg`), 1e-4 (`pdm`)``, in the type of like."""
    by_policy = dict(re.findall(r"([^\s,]+) \(`(pd[gm])`\)", cell))
    by_policy = {name: value for value, name in by_policy.items()}
    text = by_policy.get(policy, cell)
    if text == "all":
        return None
    if isinstance(like, bool):
        return {"yes": True, "no": False}[text]
    return text if isinstance(like, str) else float(text)


def preset_value(preset: str, policy: str, field: str) -> object:
    found = Preset.for_policy(KINDS[policy], preset)
    return getattr(found.settings if hasattr(found.settings, field) else found.architecture, field)


def test_every_field_has_a_row():
    fields = {*TrainingSettings.model_fields, *GraphArchitecture.model_fields}
    assert set(ROWS) == fields - NOT_SHOWN


@pytest.mark.parametrize("field", ROWS)
@pytest.mark.parametrize("preset", ["ours", "paper"])
def test_the_table_shows_what_the_preset_holds(preset, field):
    row = ROWS[field]
    # Where the paper says nothing its preset takes the value of the authors' code.
    cell = row["authors' code"] if row[preset] == NOT_STATED else row[preset]
    graph_only = GraphArchitecture.model_fields.keys() - {"silence_w"}
    for policy in ("pdg",) if field in graph_only else ("pdg", "pdm"):
        expected = preset_value(preset, policy, field)
        assert value_in(cell, policy, expected) == expected, (field, policy)


@pytest.mark.parametrize(
    ("policy", "hidden"), [("pdg", GRAPH_HIDDEN), ("pdm", PERCEPTRON_HIDDEN)], ids=["pdg", "pdm"]
)
def test_widths(policy, hidden):
    row = next(row for row in table() if row["parameter"] == f"hidden layers of `{policy}`")
    assert row["ours"] == ", ".join(map(str, hidden))
