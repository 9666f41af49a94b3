"""The example of docs/custom-task.md runs, learns, and is as short as promised."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parents[2] / "docs" / "custom-task.md"


def blocks() -> list[str]:
    return re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)


def test_the_example_runs_and_learns(capsys):
    names: dict[str, Any] = {}
    for block in blocks():
        exec(compile(block, str(PAGE), "exec"), names)
    out = capsys.readouterr().out
    assert out.startswith("ideal 0.")
    assert names["history"].policies["ideal"][0].arrivals == (4,) * 10 + (2,) * 10 + (4,) * 10
    assert names["history"].final_error("ideal") < 0.3


def test_a_task_takes_under_thirty_lines():
    statements = ast.parse(blocks()[0]).body
    task = [
        node
        for node in statements
        if isinstance(node, ast.FunctionDef)
        or (isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "task")
    ]
    assert len(task) == 2
    assert sum(node.end_lineno - node.lineno + 1 for node in task) < 30
