"""The example of docs/custom-task.md runs, learns, and is as short as promised."""

from __future__ import annotations

import ast
from typing import Any

from .markdown import ROOT, blocks, run

CUSTOM_TASK = ROOT / "docs" / "custom-task.md"


def test_the_example_runs_and_learns():
    names: dict[str, Any] = {}
    printed = [run(block, names) for block in blocks(CUSTOM_TASK)]
    assert printed[0].startswith("ideal 0.")
    assert names["history"].policies["ideal"][0].arrivals == (4,) * 10 + (2,) * 10 + (4,) * 10
    assert names["history"].final_error("ideal") < 0.3


def test_a_task_takes_under_thirty_lines():
    statements = ast.parse(blocks(CUSTOM_TASK)[0].code).body
    task = [
        node
        for node in statements
        if isinstance(node, ast.FunctionDef)
        or (isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "task")
    ]
    assert len(task) == 2
    assert sum(node.end_lineno - node.lineno + 1 for node in task) < 30
