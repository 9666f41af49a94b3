"""The notebooks: what is in the script is in the notebook, and they run."""

from __future__ import annotations

from pathlib import Path

import pytest

from .markdown import ROOT

jupytext = pytest.importorskip("jupytext")

SCRIPTS = sorted((ROOT / "notebooks").glob("*.py"))


def cells(path: Path) -> list[tuple[str, str]]:
    return [(cell.cell_type, cell.source) for cell in jupytext.read(path).cells]


def test_there_are_three():
    assert len(SCRIPTS) == 3
    assert {path.with_suffix(".ipynb") for path in SCRIPTS} == set(
        (ROOT / "notebooks").glob("*.ipynb")
    )


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_notebook_and_script_are_a_pair(script: Path):
    """``make notebooks`` writes the notebooks anew; they hold no outputs."""
    notebook = script.with_suffix(".ipynb")
    assert cells(notebook) == cells(script)
    assert not any(cell.get("outputs") for cell in jupytext.read(notebook).cells)


@pytest.mark.slow
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_notebook_runs(script: Path, tmp_path: Path):
    nbclient = pytest.importorskip("nbclient")
    notebook = jupytext.read(script)
    client = nbclient.NotebookClient(
        notebook,
        timeout=600,
        kernel_name="python3",
        resources={"metadata": {"path": str(tmp_path)}},
    )
    client.execute()
    shown = [out for cell in notebook.cells for out in cell.get("outputs", [])]
    kinds = {kind for out in shown for kind in out.get("data", {})}
    assert {"text/html", "image/png"} <= kinds
