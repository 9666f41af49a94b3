"""Time and memory of a federation in Flower's Simulation runtime on one machine.

    python benchmarks/flower_scale.py 2 8 32

Two rounds and then twelve of the digits at full power for every number of workers: their difference
is the time per round, the rest is the start and the end. Memory is the proportional set size (PSS)
of all processes of Flower and Ray, in which shared pages count once, at its highest sample.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import platform
import threading
import time

import psutil

from feduplink import FullPower, Scenario
from feduplink.flower import federate_with_flower

SHORT, LONG = 2, 12
#: Interval between two samples of the memory, s.
SAMPLE_S = 1.0


def memory_mib() -> float:
    """PSS of all processes that this one has started, and those that they have started."""
    total = 0
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            total += process.memory_full_info().pss
    return total / 2**20


@contextlib.contextmanager
def sampled_memory(samples: list[float]):
    """Append samples of the memory until the block ends."""
    ended = threading.Event()

    def sample() -> None:
        while not ended.wait(SAMPLE_S):
            samples.append(memory_mib())

    thread = threading.Thread(target=sample)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def seconds(workers: int, rounds: int) -> float:
    scenario = Scenario(workers=workers)
    begun = time.monotonic()
    federate_with_flower("digits", {"max": FullPower(scenario)}, scenario, rounds=rounds)
    return time.monotonic() - begun


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("workers", type=int, nargs="+")
    args = parser.parse_args()
    print(f"{platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    print(f"| workers | {SHORT} rounds, s | per further round, s | memory, MiB |")
    print("| ---: | ---: | ---: | ---: |")
    for workers in args.workers:
        memory: list[float] = []
        short = seconds(workers, SHORT)
        with sampled_memory(memory):
            long = seconds(workers, LONG)
        each = (long - short) / (LONG - SHORT)
        print(f"| {workers} | {short:.0f} | {each:.1f} | {max(memory):.0f} |", flush=True)


if __name__ == "__main__":
    main()
