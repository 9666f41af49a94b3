"""How near ``pdx`` is to the optimum: settings, sizes, cells it never saw, noisy CSI.

    python benchmarks/pdx.py settings|sizes|unseen|noise [--pdg DIR --pdm DIR]

Prints one Markdown table. ``--pdg`` and ``--pdm`` are directories of ``feduplink train`` at the
default setting.
"""

from __future__ import annotations

import argparse
import time

import torch
from torch import Tensor

from feduplink import OpenLoop, Scenario, draw_csi, load_policy, shipped_scenarios
from feduplink.channels import draw_training_csi
from feduplink.judgement import Judgement
from feduplink.optimum import solve_dual
from feduplink.policies import CHANNELS, Policy, UnrolledPolicy, judge_policy, shipped_pdx
from feduplink.randomness import torch_generator

SEED = 11
TEST, SUBSET = 10_000, 2_000


def test_csi(scenario: Scenario, count: int) -> Tensor:
    return draw_csi(scenario, count, torch_generator(SEED, "test-channels"))


def openloop(scenario: Scenario) -> OpenLoop:
    training = draw_csi(scenario, 1000, torch_generator(SEED, "train-channels"))
    return OpenLoop.tuned(scenario, training)


def tuned_pdx(scenario: Scenario) -> UnrolledPolicy:
    """With multipliers from channels of this benchmark's seed: one more draw than the shipped."""
    return shipped_pdx(scenario, draw_training_csi(scenario, CHANNELS, seed=SEED))


def row(*cells: object) -> None:
    print("| " + " | ".join(str(cell) for cell in cells) + " |", flush=True)


def header(*cells: str) -> None:
    row(*cells)
    row("---", *["---:"] * (len(cells) - 1))


def figures(verdict: Judgement) -> str:
    short = f" ({verdict.violation:.1%} short)" if verdict.feasible is False else ""
    return f"{verdict.objective:.4f}{short}"


def settings(_pdg: Policy | None, _pdm: Policy | None) -> None:
    header(
        "setting",
        "pdx, 10,000 channels",
        "worst shortfall",
        "participation",
        "pdx solved for 2,000 of them",
        "optimum of these",
        "its participation",
        "multipliers, s",
    )
    for name in shipped_scenarios():
        scenario = Scenario.load(name)
        start = time.perf_counter()
        policy = tuned_pdx(scenario)
        seconds = time.perf_counter() - start
        csi = test_csi(scenario, TEST)
        whole = judge_policy(policy, csi, scenario)
        # Both fitted to the same channels: what the network loses against the search.
        few = csi[:SUBSET]
        part = judge_policy(shipped_pdx(scenario, few, margin=0.0), few, scenario)
        best = solve_dual(scenario, few).judgement
        row(
            name,
            f"{whole.objective:.4f}",
            f"{whole.violation:.2%}",
            f"{whole.participation:.3f}",
            f"{part.objective:.4f}",
            f"{best.objective:.4f}",
            f"{best.participation:.3f}",
            f"{seconds:.0f}",
        )


def unconstrained(names: dict[str, Scenario], pdg: Policy, count: int) -> None:
    header("cell", "open loop", "pdg", "pdx", "optimum")
    for name, scenario in names.items():
        csi = test_csi(scenario, count)
        policies = (openloop(scenario), pdg, tuned_pdx(scenario))
        verdicts = [judge_policy(policy, csi, scenario) for policy in policies]
        best = solve_dual(scenario, csi).judgement
        row(name, *(f"{v.objective:.4f}" for v in (*verdicts, best)))


def sizes(pdg: Policy, _pdm: Policy | None) -> None:
    free = {"rate_min": 0.0, "ee_min": 0.0}
    cells = {f"{n} workers": Scenario(workers=n, **free) for n in (6, 16, 24, 32)}
    unconstrained(cells, pdg, 1000)


def unseen(pdg: Policy, _pdm: Policy | None) -> None:
    free = {"rate_min": 0.0, "ee_min": 0.0}
    cells = {
        "Hata–COST231 urban, shadowed": Scenario(channel_model="hata-urban-shadowed", **free),
        "4 antennas": Scenario(antennas=4, **free),
        "16 antennas": Scenario(antennas=16, **free),
        "cell of 500 m": Scenario(cell_side_m=500, **free),
        "cell of 2000 m": Scenario(cell_side_m=2000, **free),
    }
    unconstrained(cells, pdg, 1000)


def noise(pdg: Policy, pdm: Policy) -> None:
    clean = Scenario()
    csi = test_csi(clean, TEST)
    pdx = tuned_pdx(clean)
    header("variance", "pdm", "pdg", "pdx, unaware", "pdx, told the variance")
    for variance in (0.0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6):
        scenario = clean.replace(csi_noise=variance)
        told = pdx.scenario.replace(csi_noise=variance)
        aware = UnrolledPolicy(told, pdx.network, pdx.point)
        verdicts = [judge_policy(p, csi, scenario, seed=SEED) for p in (pdm, pdg, pdx, aware)]
        row(f"{variance:g}", *(figures(verdict) for verdict in verdicts))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    tables = {f.__name__: f for f in (settings, sizes, unseen, noise)}
    parser.add_argument("table", choices=tables)
    parser.add_argument("--pdg", help="directory of a pdg")
    parser.add_argument("--pdm", help="directory of a pdm")
    args = parser.parse_args()
    torch.set_num_threads(1)
    saved = [load_policy(path) if path else None for path in (args.pdg, args.pdm)]
    tables[args.table](*saved)


if __name__ == "__main__":
    main()
