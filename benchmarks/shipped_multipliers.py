"""Find the multipliers of ``pdx`` that ship: of all shipped scenarios but the default one.

    python benchmarks/shipped_multipliers.py [--processes N]

Those of the default scenario are in the network's file, which ``feduplink train --policy pdx``
writes. Run it after the network or the search for multipliers has changed. Writes
``src/feduplink/policies/multipliers.safetensors`` and prints how long each search took.
"""

from __future__ import annotations

import argparse
import os
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import torch

from feduplink import Scenario, shipped_scenarios
from feduplink.lagrangian import DualPoint
from feduplink.policies import CHANNELS, UnrolledPolicy, shipped_network
from feduplink.storage.tensorfile import TensorFile, write_tensors

FILE = Path(__file__).parents[1] / "src/feduplink/policies/multipliers.safetensors"


def found(name: str) -> tuple[DualPoint, float]:
    """The multipliers of a shipped scenario, and the seconds of processor time they took."""
    torch.set_num_threads(1)
    os.environ["FEDUPLINK_CACHE"] = ""
    start = time.process_time()
    scenario = Scenario.load(name)
    policy = UnrolledPolicy.calibrated(shipped_network(), scenario)
    return policy.point, time.process_time() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--processes", type=int, default=1, metavar="N")
    args = parser.parse_args()
    tensors = {}
    names = [name for name in shipped_scenarios() if Scenario.load(name) != Scenario()]
    with ProcessPoolExecutor(args.processes) as pool:
        for name, (point, seconds) in zip(names, pool.map(found, names), strict=True):
            print(f"{name}: {seconds:.1f} s", flush=True)
            tensors |= {f"pdx.{name}.{key}": t for key, t in point.tensors().items()}
    write_tensors(FILE, "multipliers", TensorFile(tensors, {"channels": CHANNELS}))


if __name__ == "__main__":
    main()
