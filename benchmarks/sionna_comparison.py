"""Do the main conclusions hold on 3GPP channels? Policies and the optimum on UMi, UMa and InF.

    python benchmarks/sionna_comparison.py [CELL ...] [--channels 1000] [--epochs 300]

Prints one Markdown table per cell, by default of ``umi``, ``uma`` and ``inf``, with MRC receivers.
There are also ``default`` (the shipped model, to compare with), ``umi-mmse`` with MMSE filters and
``umi-21`` in a grid of 21 base stations. Thresholds are the same shares of the mean rate and energy
efficiency at full power as those of the default scenario are there. ``openloop``, ``dual`` and the
multipliers of ``pdx`` are tuned on as many channels as the policies are judged on; the network of
``pdx`` is the shipped one, that of ``pdg`` is trained on these channels. The distance to the
optimum is that of the policy with workers silenced in some rounds, so that it meets every
constraint on the test channels as the optimum does. Seconds and joules are medians of a round with
39,760 weights of every worker that sends.
"""

from __future__ import annotations

import argparse
import time

import torch
from torch import Tensor

from feduplink import (
    FullPower,
    OpenLoop,
    Scenario,
    evaluate,
    make_trainer,
)
from feduplink.channels import Channels, make_channels
from feduplink.federated import TDMA, Rounds, UplinkRules, everyone, transmit
from feduplink.judgement import judge
from feduplink.lagrangian import ChannelBatch
from feduplink.optimum import find_optimum, repair_by_silence
from feduplink.policies import DualPolicy, Policy, shipped_pdx
from feduplink.problem import Problem

_AT = {"carrier_hz": 3.5e9}
CELLS = {
    "default": Scenario(),
    "umi": Scenario(channel_model="sionna-umi", cell_side_m=200, **_AT),
    "uma": Scenario(channel_model="sionna-uma", cell_side_m=500, **_AT),
    "inf": Scenario(channel_model="sionna-inf", cell_side_m=120, **_AT),
    "umi-mmse": Scenario(channel_model="sionna-umi-mmse", cell_side_m=200, **_AT),
    "umi-21": Scenario(channel_model="sionna-umi", cell_side_m=200, base_stations=21, **_AT),
}
SEED = 11
WEIGHTS = 39_760
BUDGET_S = 5.0


def full_power(scenario: Scenario, csi: Tensor) -> tuple[float, float]:
    """Mean rate and energy efficiency of all workers at full power."""
    power = FullPower(scenario).allocate(csi)
    reached = judge(scenario, csi, power).constraints
    rate, efficiency = (
        float(reached[name].expected.mean()) for name in ("rate", "energy_efficiency")
    )
    return rate, efficiency


def tuned(scenario: Scenario, splits: Channels, epochs: int) -> dict[str, Policy]:
    trainer = make_trainer("pdg", scenario, splits, seed=SEED, epochs=epochs)
    trainer.run()
    return {
        "max": FullPower(scenario),
        "openloop": OpenLoop.tuned(scenario, splits.training),
        "pdg": trainer.trained(),
        "dual": DualPolicy.learned(scenario, splits.training),
        "pdx": shipped_pdx(scenario, splits.training),
    }


def round_cost(policy: Policy, scenario: Scenario, csi: Tensor) -> str:
    present = everyone(*csi.shape[:2])
    rounds = Rounds(csi, csi, torch.zeros(present.shape), present)
    rules = UplinkRules(scenario, scenario.model_bits(WEIGHTS))
    uploads = transmit(policy, rounds, rules)
    return f"{float(uploads.airtime_s.median()):.3g} | {float(uploads.energy_j.median()):.3g}"


def table(name: str, channels: int, epochs: int, shares: tuple[float, float]) -> None:
    start = time.process_time()
    scenario = CELLS[name]
    splits = make_channels(scenario, channels, seed=SEED)
    drawn = time.process_time() - start
    rate, efficiency = full_power(scenario, splits.training)
    rate_min, ee_min = round(shares[0] * rate, 2), round(shares[1] * efficiency, 1)
    scenario = scenario.replace(rate_min=rate_min, ee_min=ee_min)
    problem, csi = Problem.from_scenario(scenario), splits.test
    policies = tuned(scenario, splits, epochs)
    outcomes = evaluate(scenario, policies, channels=csi)
    optimum = find_optimum(scenario, csi, budget_s=BUDGET_S).improved_by(outcomes.powers)
    batch = ChannelBatch.from_scenario(scenario, csi)
    print(f"\n**{name}**: rate >= {rate_min:g}, EE >= {ee_min:g}; the best policy found reaches")
    print(f"{optimum.objective:.4f}, nobody exceeds {optimum.upper_bound:.4f}\n")
    print("| policy | objective | below optimum | participation | shortfall, % | s | J |")
    print("| --- | ---: | ---: | ---: | --- | ---: | ---: |")
    for policy, outcome in outcomes.items():
        found = outcome.judgement
        below = (
            optimum.objective
            - judge(scenario, csi, repair_by_silence(outcome.power, batch, problem)).objective
        )
        short = f"{100 * found.shortfall:+.1f}±{100 * found.shortfall_error:.1f}"
        print(
            f"| `{policy}` | {found.objective:.4f} | {below:.4f} | {found.participation:.1%} | "
            f"{found.verdict} {short} | {round_cost(policies[policy], scenario, csi)} |"
        )
    print(f"| `tdma` | | | 100.0% | | {round_cost(TDMA(), scenario, csi)} |")
    took = time.process_time() - start
    print(f"\n{took:.0f} CPU s, {drawn:.0f} of them for {3 * channels} channels", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cells", nargs="*", default=["umi", "uma", "inf"], help=", ".join(CELLS))
    parser.add_argument("--channels", type=int, default=1000, help="in each of the three splits")
    parser.add_argument("--epochs", type=int, default=300, help="of the training of pdg")
    args = parser.parse_args()
    torch.set_num_threads(1)
    usual = Scenario()
    rate, efficiency = full_power(usual, make_channels(usual, 10_000, seed=SEED).training)
    shares = (0.7 / rate, 55 / efficiency)
    print(f"thresholds: {shares[0]:.1%} of the mean rate at full power, {shares[1]:.1%} of the EE")
    for name in args.cells:
        table(name, args.channels, args.epochs, shares)


if __name__ == "__main__":
    main()
