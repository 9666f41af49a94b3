"""Claims about a policy in use: what an allocation costs, and whether numbering matters.

    feduplink train --policy pdg --out runs/pdg && feduplink train --policy pdm --out runs/pdm
    python benchmarks/allocation.py runs/pdg runs/pdm

For ``openloop``, ``pdx`` and the trained policies, on one thread at the default setting: the
milliseconds per channel of 1000 channels at once (median of ten) and of one channel alone (median
of a hundred), and the largest change of any power, as a share of Pmax, when the workers of 1000
channels are renumbered at random. What tells workers apart besides the channel, the weights and
multipliers of ``pdx``, is made alike for the last figure.
"""

from __future__ import annotations

import argparse
import statistics
import time

import torch
from torch import Tensor

from feduplink import OpenLoop, Scenario, load_policy
from feduplink.channels import make_channels
from feduplink.policies import Policy, UnrolledPolicy, shipped_pdx


def milliseconds_per_channel(policy: Policy, csi: Tensor, repetitions: int) -> float:
    seconds = []
    for repetition in range(repetitions + 2):
        start = time.perf_counter()
        policy.allocate(csi)
        if repetition >= 2:  # the first ones warm up
            seconds.append(time.perf_counter() - start)
    return 1e3 * statistics.median(seconds) / len(csi)


def with_workers_alike(policy: Policy) -> Policy:
    if not isinstance(policy, UnrolledPolicy):
        return policy
    alike = policy.point.for_workers(policy.scenario.workers)
    return UnrolledPolicy(Scenario(weights="uniform"), policy.network, alike)


def change_by_renumbering(policy: Policy, csi: Tensor) -> float:
    workers = csi.shape[-1]
    order = torch.rand(len(csi), workers, generator=torch.Generator().manual_seed(0)).argsort(-1)
    rows = csi.gather(1, order[:, :, None].expand_as(csi))
    renumbered = rows.gather(2, order[:, None, :].expand_as(csi))
    expected = policy.allocate(csi).gather(1, order)
    return float((policy.allocate(renumbered) - expected).abs().max()) / policy.scenario.max_power


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", nargs="*", help="directories of trained policies")
    options = parser.parse_args()
    torch.set_num_threads(1)
    scenario = Scenario()
    splits = make_channels(scenario, seed=0)
    policies = [OpenLoop.tuned(scenario, splits.training), shipped_pdx()]
    policies += [load_policy(run) for run in options.runs]
    print("| policy | ms per channel, 1000 at once | ms, one alone | change by renumbering |")
    print("| --- | ---: | ---: | ---: |")
    for policy in policies:
        many = milliseconds_per_channel(policy, splits.test, 10)
        one = milliseconds_per_channel(policy, splits.test[:1], 100)
        change = change_by_renumbering(with_workers_alike(policy), splits.test)
        print(f"| `{policy.name}` | {many:.4f} | {one:.2f} | {change:.1e} |")


if __name__ == "__main__":
    main()
