"""``pdx`` wherever it is put: 40 random scenarios, drawn once, and how far below the optimum it is.

    python benchmarks/random_scenarios.py [--processes N] [--only I ...] [--csv FILE]

3 to 32 workers, 2 to 64 antennas, all channel models that need no extra package, Pmax from -45 to
5 dBW, interference from 0.5 to 10. Thresholds reach up to the edge of what workers could meet at
once: a power is drawn between the most efficient one and Pmax, and the thresholds are shares,
uniform in (0, 1), of the mean rate and the mean efficiency of a worker that is alone on the air at
that power in every channel. In every other scenario each worker has shares of its own.

Each scenario is solved as a user would, with multipliers found on 40,000 channels, and judged on
10,000 others. By weak duality no policy that meets the constraints on the whole distribution is
above E[max_p L(p)] at any multipliers, so that the distance to the optimum is at most

    E[max_p L(p) - L(pdx)] + E[L(pdx)] - objective(pdx):

what the network misses of the largest Lagrangian, by the search on the first 1,000 of the channels,
and what is paid for a surplus of the constraints, on all of them. Prints one Markdown table.
"""

from __future__ import annotations

import argparse
import csv
import os
import time
import warnings
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from feduplink import Scenario, draw_csi, link
from feduplink.lagrangian import ChannelBatch, Prices, climb, maximise
from feduplink.policies import UnrolledPolicy, judge_policy, shipped_pdx
from feduplink.problem import Problem
from feduplink.randomness import torch_generator

COUNT, SEED = 40, 2026
TEST, SEARCHED, REACH = 10_000, 1_000, 1_000
CHANNEL_MODELS = (
    "wbs",
    "hata-urban",
    "hata-suburban",
    "hata-urban-shadowed",
    "hata-suburban-shadowed",
)


def random_scenario(index: int) -> Scenario:
    """The scenario of this number, always the same."""
    random = np.random.default_rng((SEED, index))
    workers = int(random.integers(3, 33))
    cell = Scenario(
        workers=workers,
        antennas=round(float(np.exp(random.uniform(np.log(2), np.log(64))))),
        channel_model=CHANNEL_MODELS[index % len(CHANNEL_MODELS)],
        pmax_dbw=round(float(random.uniform(-45, 5)), 1),
        interference=round(float(np.exp(random.uniform(np.log(0.5), np.log(10)))), 2),
    )
    rate, efficiency = reached_alone(cell, float(random.uniform(0, 1)))
    shares = random.uniform(0, 1, (2, workers if index % 2 else 1))
    rate_min, ee_min = (
        tuple(float(f"{value:.3g}") for value in values)
        for values in (rate * shares[0], efficiency * shares[1])
    )
    if index % 2:
        return cell.replace(rate_min=rate_min, ee_min=ee_min)
    return cell.replace(rate_min=rate_min[0], ee_min=ee_min[0])


def reached_alone(scenario: Scenario, level: float) -> tuple[float, float]:
    """Mean rate and efficiency alone on the air; level 0 is the most efficient power, 1 Pmax."""
    direct = draw_csi(scenario, REACH, torch_generator(SEED, "train-channels")).diagonal(
        dim1=-2, dim2=-1
    )
    pmax, static = scenario.max_power, scenario.static_power
    inefficiency = scenario.amplifier_inefficiency
    efficient = link.most_efficient_power(direct, static, inefficiency)
    power = torch.minimum(efficient, pmax) ** (1 - level) * pmax**level
    rate = link.rate(direct.to(power) * power)
    efficiency = link.efficiency_of_rate(rate, power, static, inefficiency)
    return float(rate.mean()), float(efficiency.mean())


@dataclass(frozen=True)
class Row:
    """What one scenario gave."""

    scenario: int
    channel_model: str
    workers: int
    antennas: int
    pmax_dbw: float
    interference: float
    rate_min: str
    ee_min: str
    objective: float
    participation: float
    below_optimum: float
    missed_by_network: float
    verdict: str
    worst_shortfall: float
    seconds: float


def largest_lagrangian(
    policy: UnrolledPolicy, csi: Tensor, power: Tensor, prices: Prices
) -> Tensor:
    """Of the search, or of what the policy's powers lead to, (N,)."""
    batch = ChannelBatch.from_scenario(policy.scenario, csi)
    found = maximise(batch, prices)
    climbed = climb(batch, prices, power, steps=8)
    return torch.stack([batch.value(p, prices) for p in (found, climbed, power)]).amax(0)


def measured(index: int) -> Row:
    """Solve and judge the scenario of this number."""
    torch.set_num_threads(1)
    os.environ["FEDUPLINK_CACHE"] = ""
    warnings.simplefilter("ignore")  # Hata's shortest distance
    scenario = random_scenario(index)
    start = time.process_time()
    policy = shipped_pdx(scenario)
    seconds = time.process_time() - start
    csi = draw_csi(scenario, TEST, torch_generator(SEED, "test-channels"))
    verdict = judge_policy(policy, csi, scenario)
    problem = Problem.from_scenario(scenario)
    prices = Prices.from_problem(problem, scenario, policy.point.multipliers)
    power = policy.allocate(csi).to(torch.float64)
    reached = ChannelBatch.from_scenario(scenario, csi).value(power, prices)
    largest = largest_lagrangian(policy, csi[:SEARCHED], power[:SEARCHED], prices)
    missed = float((largest - reached[:SEARCHED]).mean())
    return Row(
        index,
        scenario.channel_model,
        scenario.workers,
        scenario.antennas,
        float(scenario.max_power.log10() * 10),
        scenario.interference,
        span(scenario.rate_thresholds),
        span(scenario.ee_thresholds),
        verdict.objective,
        verdict.participation,
        missed + float(reached.mean()) - verdict.objective,
        missed,
        verdict.verdict,
        verdict.violation,
        seconds,
    )


def span(values: Tensor) -> str:
    """One value, or the smallest and the largest."""
    low, high = float(values.min()), float(values.max())
    return f"{low:.3g}" if low == high else f"{low:.3g} to {high:.3g}"


def cells(row: Row) -> list[str]:
    """For the Markdown table."""
    return [
        f"{row.channel_model}, {row.workers} workers, {row.antennas} antennas",
        f"{row.pmax_dbw:.1f}",
        f"{row.interference:g}",
        row.rate_min,
        row.ee_min,
        f"{row.objective:.4f}",
        f"{row.participation:.3f}",
        f"{row.below_optimum:.4f}",
        f"{row.missed_by_network:.4f}",
        row.verdict,
        f"{row.seconds:.1f}",
    ]


HEADER = (
    "cell",
    "Pmax, dBW",
    "interference",
    "rate at least",
    "efficiency at least",
    "pdx",
    "participation",
    "below the optimum by at most",
    "of that the network's",
    "constraints",
    "multipliers, s",
)


def main() -> None:
    """Measure all scenarios and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--processes", type=int, default=1, metavar="N")
    parser.add_argument("--only", type=int, nargs="+", metavar="I", help="scenarios by number")
    parser.add_argument("--csv", type=Path, metavar="FILE", help="all figures, one row each")
    args = parser.parse_args()
    rows = []
    print("| " + " | ".join(HEADER) + " |")
    print("| --- " + "| ---: " * (len(HEADER) - 1) + "|")
    with ProcessPoolExecutor(args.processes) as pool:
        for row in pool.map(measured, args.only or range(COUNT)):
            rows.append(row)
            print("| " + " | ".join(cells(row)) + " |", flush=True)
            if args.csv:
                write(args.csv, rows)
    below = np.array([row.below_optimum for row in rows])
    print(f"\nbelow the optimum: median {np.median(below):.4f}, worst {below.max():.4f}")


def write(file: Path, rows: list[Row]) -> None:
    """All figures so far, one row per scenario."""
    with file.open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(field.name for field in fields(Row))
        writer.writerows([getattr(row, field.name) for field in fields(Row)] for row in rows)


if __name__ == "__main__":
    main()
