"""The main comparison under Sionna's BLER curve beside the exponential waterfall.

    python benchmarks/bler_comparison.py [--mcs 7 3]

One Markdown table for each curve, at the default scenario: how policies do on test channels, and
what a round of a digits federation costs and brings. Policies are tuned or trained for the curve of
the table, but ``pdx``, which knows waterfalls only: under BLER curves it is the shipped one, and
one for the waterfall that loses a tenth of the uploads at the same SINR as the BLER curve.
``best found`` is the best on these channels of the dual solution, of searches from random powers at
its multipliers, and of all policies, repaired to meet the constraints; no proof goes with it. Two
and a half minutes of one core.
"""

from __future__ import annotations

import argparse
import math

import torch
from torch import Tensor

from feduplink import Scenario
from feduplink.channels import Channels, draw_training_csi, make_channels
from feduplink.federated import Federation, FederationSettings, load_task
from feduplink.judgement import judge
from feduplink.lagrangian import ChannelBatch, Prices, improve
from feduplink.link.bler import TransportBlockSuccess
from feduplink.optimum import interference_free_bound, repair_by_silence, solve_dual
from feduplink.policies import (
    DualPolicy,
    FullPower,
    GraphPolicy,
    OpenLoop,
    Orthogonal,
    Policy,
    RandomPower,
    judge_policy,
    shipped_pdx,
)
from feduplink.problem import Problem
from feduplink.randomness import torch_generator
from feduplink.registry import MEASURES
from feduplink.training import Preset, PrimalDualLearning, Trainer

SEED = 0
#: Channels to train on, to tune on, and to judge on.
CHANNELS = 1000
LEARNING_CHANNELS = 2000
JUDGED = 500
EPOCHS = 300
RUNS, ROUNDS = 4, 20
#: Searches from random powers for the best.
RESTARTS = 20
#: Share of uploads that both curves lose at the SINR at which they meet.
LOST = 0.1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mcs", type=int, nargs="+", default=[TransportBlockSuccess.mcs, 3])
    schemes = parser.parse_args().mcs
    torch.set_num_threads(1)
    waterfall = Scenario()
    csi = make_channels(waterfall, CHANNELS, seed=SEED)
    default_db = 10 * math.log10(waterfall.waterfall / -math.log1p(-LOST))
    print(f"\npsr, the waterfall: loses {LOST:.0%} at {default_db:.1f} dB")
    compare(waterfall, csi, {"pdx": shipped_pdx()})
    for mcs in schemes:
        name = f"tb-success-mcs{mcs}"
        kind = type("Chosen", (TransportBlockSuccess,), {"name": name, "mcs": mcs})
        MEASURES.register(name, kind)
        bler = Scenario(objective=name)
        m, sinr_db = meeting(kind.from_scenario(bler))
        print(f"\n{name}: loses {LOST:.0%} at {sinr_db:.1f} dB, as the waterfall of m = {m:.3f}")
        met = waterfall.replace(waterfall=m)
        closer = shipped_pdx(met, draw_training_csi(met, LEARNING_CHANNELS, seed=SEED))
        compare(bler, csi, {"pdx": shipped_pdx(), f"pdx, m = {m:.3f}": closer})


def meeting(measure: TransportBlockSuccess) -> tuple[float, float]:
    """The m of the waterfall that loses as many uploads at the same SINR, and that SINR in dB."""
    sinr_db = torch.arange(-5, 30, 0.001, dtype=torch.float64)
    sinr = 10 ** (sinr_db / 10)
    place = int((measure.value(sinr, sinr) < 1 - LOST).sum())
    return -math.log1p(-LOST) * float(sinr[place]), float(sinr_db[place])


def compare(scenario: Scenario, csi: Channels, further: dict[str, Policy]) -> None:
    learning = draw_training_csi(scenario, LEARNING_CHANNELS, seed=SEED)
    policies: dict[str, Policy] = {
        "rand": RandomPower(scenario, seed=SEED),
        "orth": Orthogonal(scenario),
        "max": FullPower(scenario),
        "openloop": OpenLoop.tuned(scenario, learning, seed=SEED),
        f"pdg, {EPOCHS} epochs": trained(scenario, csi),
        "dual": DualPolicy.learned(scenario, learning),
        **further,
    }
    settings = FederationSettings(runs=RUNS, rounds=ROUNDS)
    task = load_task("digits", workers=scenario.workers)
    history = Federation(task, policies, scenario, settings, seed=SEED).run()
    test = csi.test[:JUDGED]
    print(f"{JUDGED} channels; digits, {RUNS} runs of {ROUNDS} rounds\n")
    row(
        "policy",
        "objective",
        "weighted PER",
        "participation",
        "shortfall",
        "arrivals of 8",
        "s per round",
        "J per round",
        "error",
    )
    row("---", *["---:"] * 8)
    for name, policy in policies.items():
        verdict = judge_policy(policy, test, scenario, seed=SEED)
        runs = history.policies[name]
        arrivals = sum(sum(run.arrivals) for run in runs) / (RUNS * ROUNDS)
        row(
            name,
            f"{verdict.objective:.4f}",
            f"{verdict.weighted_per:.1%}",
            f"{verdict.participation:.1%}",
            f"{verdict.shortfall:+.1%}",
            f"{arrivals:.1f}",
            f"{history.median_cost(name, 'airtime_s'):.2f}",
            f"{history.median_cost(name, 'energy_j'):.3f}",
            f"{sum(run.error[-1] for run in runs) / RUNS:.3f}",
        )
    best(scenario, test, policies)


def trained(scenario: Scenario, csi: Channels) -> Policy:
    torch.manual_seed(SEED)
    policy = GraphPolicy(scenario)
    settings = Preset.for_policy(GraphPolicy).settings.replace(epochs=EPOCHS)
    Trainer(PrimalDualLearning(policy, csi, settings, seed=SEED)).run()
    return policy


def best(scenario: Scenario, csi: Tensor, policies: dict[str, Policy]) -> None:
    problem, batch = Problem.from_scenario(scenario), ChannelBatch.from_scenario(scenario, csi)
    solution = solve_dual(scenario, csi, problem=problem)
    prices = Prices.from_problem(problem, scenario, solution.multipliers)
    powers = {name: policy.allocate(csi) for name, policy in policies.items()}
    powers[f"{RESTARTS} restarts"] = restarted(batch, prices, solution.power)
    for name, power in powers.items():
        mended = repair_by_silence(power, batch, problem)
        solution = solution.improved_by(name, mended, judge(scenario, csi, mended, problem=problem))
    verdict = solution.judgement
    row(
        f"best found, by {solution.found_by}",
        f"{verdict.objective:.4f}",
        f"{verdict.weighted_per:.1%}",
        f"{verdict.participation:.1%}",
        f"{verdict.shortfall:+.1%}",
        *["–"] * 4,
    )
    alone = interference_free_bound(problem, scenario.max_power, batch.direct)
    row("nobody exceeds, without interference", f"{alone:.4f}", *["–"] * 7)


def restarted(batch: ChannelBatch, prices: Prices, power: Tensor) -> Tensor:
    """The best powers of each channel from ``power`` and from random ones, (N, L) W."""
    generator = torch_generator(SEED, "policy")
    value = batch.value(power, prices)
    for _ in range(RESTARTS):
        chance = torch.rand(2, *power.shape, generator=generator, dtype=torch.float64)
        start = batch.pmax_w * 10 ** (-3 * chance[0]) * (chance[1] < 0.7)
        found = improve(batch, prices, start, rounds=2)
        found_value = batch.value(found, prices)
        power = torch.where((found_value > value)[:, None], found, power)
        value = torch.maximum(value, found_value)
    return power


def row(*cells: object) -> None:
    print("| " + " | ".join(str(cell) for cell in cells) + " |", flush=True)


if __name__ == "__main__":
    main()
