"""The checker runs without the search, its formulas and PyTorch; ``make lint`` sees that, too."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import feduplink
from feduplink.proofs import write_proof

from .plain_search import plain_proof

PROGRAM = """
import importlib.abc, pathlib, sys, types
package = types.ModuleType("feduplink")
package.__path__ = [sys.argv[1]]  # as a directory of modules: its __init__ imports the search
sys.modules["feduplink"] = package

class Alone(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        allowed = ("proofs", "errors", "storage", "progress", "process_pool")
        if name.startswith("feduplink.") and name.split(".")[1] not in allowed:
            raise ImportError(name)
        if name.split(".")[0] in ("torch", "scipy"):
            raise ImportError(name)

sys.meta_path.insert(0, Alone())
from feduplink.proofs import read_proof
from feduplink.proofs.checker import check_proof
print(check_proof(read_proof(sys.argv[2])).failure)
"""


def test_a_proof_is_checked_by_the_checker_alone(tmp_path: Path):
    write_proof(tmp_path / "proof.h5", plain_proof(0))
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, Path(feduplink.__file__).parent, tmp_path / "proof.h5"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "None\n"
