"""How often the verdict on a policy's constraints is wrong.

    python benchmarks/feasibility.py [--draws 200] [--population 1000000]

A policy decides on a population of a million channels, whose means are the truth. Channels that are
drawn from the population, with replacement, judge the policy many times: on 1000 channels, and with
a sequential test on 1000 to 50,000. The thresholds are those of the scenario, then such that every
worker truly misses by just under the tolerance of 1 % (the hardest case for a false *infeasible*),
then such that the worst worker truly misses by 5 % (for a false *feasible*). Also counts how often
all intervals of all planned analyses together hold the truth.
"""

from __future__ import annotations

import argparse
from collections import Counter

import torch
from torch import Tensor

from feduplink import Scenario, link
from feduplink.channels import draw_csi, make_channels
from feduplink.judgement import SequentialTest, planned_sizes
from feduplink.policies import OpenLoop, Policy, shipped_pdx
from feduplink.problem import Problem
from feduplink.settings import CHANNELS_PER_SPLIT

CHUNK = 2000
SCENARIOS = ("default", "interference-x8")
#: Planned numbers of channels of a fixed and of a sequential test.
PLANS = ((CHANNELS_PER_SPLIT,), planned_sizes(CHANNELS_PER_SPLIT))


def population(
    policy: Policy, scenario: Scenario, count: int, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Constraint values (K, N, L), and whether a worker transmits, (N, L) bool."""
    problem = Problem.from_scenario(scenario)
    measured, active = [], []
    for _ in range(count // CHUNK):
        csi = draw_csi(scenario, CHUNK, generator)
        power = policy.allocate(csi).double()
        measured.append(problem.constraint_values(link.sinr(csi.double(), power), power))
        active.append(power > 0)
    return torch.cat(measured, 1), torch.cat(active)


def judged(
    values: Tensor,
    active: Tensor,
    scenario: Scenario,
    problem: Problem,
    sizes: tuple[int, ...],
    truth: Tensor,
    generator: torch.Generator,
) -> tuple[bool | None, int, bool]:
    """The verdict, the channels it took, and whether all intervals of all analyses hold."""
    test = SequentialTest(scenario, problem, sizes)
    true = (problem.thresholds - truth) / problem.scales
    verdict, channels, hold = None, sizes[-1], True
    for size in sizes:
        rows = torch.randint(active.shape[0], (size - test.channels,), generator=generator)
        sample = values[:, rows]
        test.add_samples(sample, active[rows].expand(sample.shape))
        found = test.shortfalls
        hold &= bool(((found.low <= true) & (true <= found.high)).all())
        if verdict is None and found.feasible is not None:
            verdict, channels = found.feasible, size
    return verdict, channels, hold


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=200)
    parser.add_argument("--population", type=int, default=1_000_000)
    args = parser.parse_args()
    print(
        "| scenario | policy | thresholds | true shortfall | channels | feasible | inconclusive | "
        "infeasible | mean channels | all intervals right |"
    )
    print("| --- | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for name in SCENARIOS:
        scenario = Scenario.load(name)
        problem = Problem.from_scenario(scenario)
        generator = torch.Generator().manual_seed(2026)
        policies = {
            "openloop": OpenLoop.tuned(scenario, make_channels(scenario, 1000, seed=0).training),
            "pdx": shipped_pdx(scenario),
        }
        for label, policy in policies.items():
            values, active = population(policy, scenario, args.population, generator)
            truth = torch.where(active, values, 0.0).sum(1) / active.sum(0)
            asked = problem.thresholds
            worst = float(((asked - truth) / asked).max())
            cases = {
                "as they are": asked,
                "all violated by 0.99 %": truth / (1 - 0.0099),
                "worst violated by 5 %": asked * (1 - worst) / (1 - 0.05),
            }
            for case, thresholds in cases.items():
                shortfall = float(((thresholds - truth) / thresholds).max())
                changed = problem.with_thresholds(thresholds)
                for sizes in PLANS:
                    results = [
                        judged(values, active, scenario, changed, sizes, truth, generator)
                        for _ in range(args.draws)
                    ]
                    verdicts = Counter(verdict for verdict, _, _ in results)
                    counts = " | ".join(str(verdicts[v]) for v in (True, None, False))
                    mean = sum(channels for _, channels, _ in results) / args.draws
                    held = sum(hold for _, _, hold in results)
                    print(
                        f"| `{name}` | `{label}` | {case} | {shortfall:+.2%} | up to {sizes[-1]} | "
                        f"{counts} | {mean:.0f} | {held} of {args.draws} |",
                        flush=True,
                    )


if __name__ == "__main__":
    main()
