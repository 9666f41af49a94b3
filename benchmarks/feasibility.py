"""How often the verdict on a policy's constraints is wrong.

    python benchmarks/feasibility.py [--draws 200] [--truth 1000000]

A policy's true means come from a million channels. It is then judged on many fresh draws of 1000
channels: as it is, against thresholds that every worker truly misses by just under the tolerance
of 1 % (the hardest case for a false "missed"), and against thresholds that its worst worker truly
misses by 5 % (for a false "met"). Also counts how often all intervals together hold the truth.
"""

from __future__ import annotations

import argparse
from collections import Counter

import torch
from torch import Tensor

from feduplink import Scenario, link
from feduplink.channels import draw_csi, make_channels
from feduplink.judgement import Shortfalls
from feduplink.policies import OpenLoop, Policy, shipped_pdx
from feduplink.problem import Problem

CHANNELS, CHUNK = 1000, 20_000
SCENARIOS = ("default", "interference-x8")


def values(policy: Policy, csi: Tensor, problem: Problem) -> tuple[Tensor, Tensor]:
    """The constraints' measures (K, N, L) and the powers (N, L)."""
    power = policy.allocate(csi).double()
    sinr = link.sinr(csi.double(), power)
    return problem.constraint_values(sinr, power), power


def true_means(
    policy: Policy, scenario: Scenario, problem: Problem, count: int, generator: torch.Generator
) -> Tensor:
    """E[c | p > 0] over ``count`` channels, (K, L)."""
    total, heard = 0.0, 0.0
    for _ in range(count // CHUNK):
        measured, power = values(policy, draw_csi(scenario, CHUNK, generator), problem)
        total = total + torch.where(power > 0, measured, 0.0).sum(1)
        heard = heard + (power > 0).sum(0)
    return total / heard


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=200)
    parser.add_argument("--truth", type=int, default=1_000_000)
    args = parser.parse_args()
    print("| scenario | policy | true shortfall | thresholds | met | open | missed | intervals |")
    print("| --- | --- | ---: | --- | ---: | ---: | ---: | ---: |")
    for name in SCENARIOS:
        scenario = Scenario.load(name)
        problem = Problem.from_scenario(scenario)
        generator = torch.Generator().manual_seed(2026)
        policies = {
            "pdx": shipped_pdx(scenario),
            "openloop": OpenLoop.tuned(scenario, make_channels(scenario, 1000, seed=0).training),
        }
        for label, policy in policies.items():
            truth = true_means(policy, scenario, problem, args.truth, generator)
            asked = problem.thresholds
            worst = float(((asked - truth) / asked).max())
            cases = {
                "as they are": asked,
                "all missed by 0.99 %": truth / (1 - 0.0099),
                "worst missed by 5 %": asked * (1 - worst) / (1 - 0.05),
            }
            found = {case: Counter[bool | None]() for case in cases}
            held = Counter[str]()
            for _ in range(args.draws):
                measured, power = values(policy, draw_csi(scenario, CHANNELS, generator), problem)
                for case, thresholds in cases.items():
                    counted = (power > 0).expand(measured.shape)
                    judged = problem.with_thresholds(thresholds)
                    shortfalls = Shortfalls.from_samples(measured, counted, judged)
                    true = (thresholds - truth) / thresholds
                    found[case][shortfalls.feasible] += 1
                    held[case] += bool(((shortfalls.low <= true) & (true <= shortfalls.high)).all())
            for case, thresholds in cases.items():
                true_worst = float(((thresholds - truth) / thresholds).max())
                verdicts = " | ".join(str(found[case][v]) for v in (True, None, False))
                print(
                    f"| `{name}` | `{label}` | {true_worst:+.2%} | {case} | {verdicts} | "
                    f"{held[case]} of {args.draws} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
