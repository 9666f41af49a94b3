"""Conventions of all modules of the package."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import feduplink
from feduplink import experiments, registry
from feduplink.registry import Registry

PACKAGE = Path(feduplink.__file__).parent
MODULES = sorted(PACKAGE.rglob("*.py"))

NAMES = {
    found.kind: set(found.names())
    for found in vars(registry).values()
    if isinstance(found, Registry)
}


@pytest.mark.parametrize("kind", NAMES)
def test_only_the_registry_lists_names(kind: str):
    """Names of policies, tasks, channel models and averages are listed in the registry only.

    Lists of figures are exempt, as some figures have the name of their task, and the selection of
    the demonstration.
    """
    lists = [
        f"{module.relative_to(PACKAGE)}:{line}: {', '.join(sorted(found))}"
        for module in MODULES
        if module.name not in ("registry.py", "demonstration.py")
        if module != Path(experiments.__file__)
        for line, strings in module_level_lists(module.read_text(encoding="utf-8"))
        if len(found := strings & NAMES[kind]) > 1
    ]
    assert not lists, "\n".join(lists)


@pytest.mark.parametrize(
    "source",
    [
        "NAMES = ('pdm', 'pdg')",
        "NAMES: set[str] = {'pdm', 'x', 'pdg'}",
        "STYLES = {'pdm': 1, 'pdg': 2}",
        "NAMES = frozenset(['pdm', 'pdg'])",
        "TITLES = [('pdm', 'perceptron'), ('pdg', 'graph')]",
        "Name = Literal['pdm', 'pdg']",
        "if True:\n    NAMES = ['pdm', 'pdg']",
    ],
)
def test_lists_of_names_are_detected(source: str):
    assert any({"pdm", "pdg"} <= strings for _, strings in module_level_lists(source))


def test_names_in_a_function_are_not_detected():
    source = "def figure():\n    return ('pdm', 'pdg')\nclass Figure:\n    names = ('pdm', 'pdg')\n"
    assert list(module_level_lists(source)) == []


def module_level_lists(source: str) -> Iterator[tuple[int, set[str]]]:
    """Line and strings of every list, tuple, set and dict in the module's own statements.

    A tuple in a list counts with its first string, as a name with what belongs to it.
    """
    for statement in ast.parse(source).body:
        if isinstance(statement, ast.FunctionDef | ast.ClassDef) or _is_dunder_all(statement):
            continue
        for node in ast.walk(statement):
            if isinstance(node, ast.Dict):
                yield node.lineno, _strings([*filter(None, node.keys), *node.values])
            elif isinstance(node, ast.List | ast.Tuple | ast.Set):
                heads = [
                    entry.elts[0]
                    for entry in node.elts
                    if isinstance(entry, ast.List | ast.Tuple) and entry.elts
                ]
                yield node.lineno, _strings([*node.elts, *heads])


def _is_dunder_all(statement: ast.stmt) -> bool:
    """Whether the statement defines ``__all__``, where functions may share a name with a scheme."""
    return isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "__all__"


def _strings(nodes: list[ast.expr]) -> set[str]:
    return {
        node.value
        for node in nodes
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
