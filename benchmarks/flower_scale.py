"""How many SuperNodes one machine holds: seconds to start, seconds per round, memory per node.

    python benchmarks/flower_scale.py 4 16 64

One SuperLink with so many SuperNodes, TLS and known keys, as ``feduplink federate --engine flower``
starts them; then three rounds of the digits, sent at full power. Memory is the proportional set
size (PSS): what processes share counts once. It is sampled while the rounds go on.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import platform
import tempfile
import time
from pathlib import Path

from feduplink import Scenario
from feduplink.flower import TaskRun
from feduplink.flower.flower_deployment import FlowerDeployment
from feduplink.flower.loopback_federation import run_task
from feduplink.flower.task_progress import finished_rounds
from feduplink.progress import Step, Work

ROUNDS = 3


def memory_mib(directory: Path) -> dict[str, float]:
    """PSS of all processes of a deployment, by what they are."""
    found: dict[str, float] = {}
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if str(directory).encode() not in (process / "environ").read_bytes():
                continue
            command = (process / "cmdline").read_text()
            (pss,) = (
                int(line.split()[1])
                for line in (process / "smaps_rollup").read_text().splitlines()
                if line.startswith("Pss:")
            )
            kind = next((name for name in KINDS if name in command), "others")
            found[kind] = found.get(kind, 0.0) + pss / 1024
    return found


#: In this order: a guard's command line holds that of what it guards.
KINDS = ("process_guard", "clientapp_executor", "flower-supernode", "flower-superlink")


class Watch:
    """Notes when rounds end, and the most memory seen at such a moment."""

    def __init__(self, deployment: FlowerDeployment) -> None:
        self.deployment, self.ends, self.memory = deployment, [], {}

    def begin(self, work: Work) -> None:
        pass

    def advance(self, _work: Work, _step: Step) -> None:
        self.ends.append(time.monotonic())
        self.memory = max(
            (self.memory, memory_mib(self.deployment.directory)), key=lambda m: sum(m.values())
        )

    def end(self, work: Work) -> None:
        pass


def measure(nodes: int) -> None:
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as out, contextlib.ExitStack() as exits:
        deployment = exits.enter_context(
            FlowerDeployment(nodes, preload=["feduplink.flower.client_app"])
        )
        started = time.monotonic()
        watch = Watch(deployment)
        run = TaskRun(
            scenario=Scenario(workers=nodes), policy="max", rounds=ROUNDS, out=Path(out, "run")
        )
        run_task(deployment, run, name="max", callbacks=[watch])
        ran = time.monotonic()
        assert len(finished_rounds(run.out)) == ROUNDS
        exits.close()
        stopped = time.monotonic()
    rounds = (watch.ends[-1] - watch.ends[0]) / (ROUNDS - 1)
    memory, each = watch.memory, (watch.memory["flower-supernode"] + watch.memory["process_guard"])
    print(
        f"| {nodes} | {started - begun:.0f} | {watch.ends[0] - started:.0f} | {rounds:.1f} "
        f"| {ran - started:.0f} | {stopped - ran:.1f} | {each / nodes:.0f} "
        f"| {memory['clientapp_executor']:.0f} | {sum(memory.values()):.0f} |",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("nodes", type=int, nargs="+")
    args = parser.parse_args()
    print(f"{platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    print(
        "| SuperNodes | start, s | to the end of round 1, s | per further round, s | run, s "
        "| stop, s | per SuperNode, MiB | executor, MiB | all, MiB |"
    )
    print("| ---: " * 9 + "|")
    for nodes in args.nodes:
        measure(nodes)


if __name__ == "__main__":
    main()
