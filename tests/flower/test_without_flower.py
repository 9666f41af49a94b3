"""Flower is an extra: nothing imports it unasked, and without it one sentence says what to do."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import importlib, sys
import feduplink.cli
print("flwr" in sys.modules)
sys.modules["flwr"] = None
for module in ("flower", "flower.wireless_grid", "flower.server_app"):
    try:
        importlib.import_module(f"feduplink.{module}")
    except feduplink.InputError as refusal:
        print(refusal)
"""


def test_it_is_imported_only_when_asked_for_and_missed_in_one_sentence():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True)
    missed = "flower: flwr is not installed; accepted: pip install 'feduplink[flower]'."
    assert done.stdout.splitlines() == ["False", missed, missed, missed], done.stderr
