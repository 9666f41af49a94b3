"""Prints figures of docs/validity.md: ``python docs/validity_figures.py``.

Other packet error models on 1000 channels of seed 0, and ``pdx`` as it ships in kept cells.
"""

from __future__ import annotations

import torch
from torch import Tensor

import feduplink as fu


def weighted(success: Tensor, scenario: fu.Scenario) -> float:
    """Mean over channels of the weighted success rate; ``success`` is (N, L)."""
    return float((success.double() @ scenario.worker_weights.double()).mean())


def powers(name: str, scenario: fu.Scenario, channels: Tensor) -> Tensor:
    """Return the powers of a policy, (N, L) W."""
    policy = fu.make_policy(name, scenario, seed=0)
    if not isinstance(policy, fu.PowerPolicy):
        raise TypeError(f"{name} sets no powers")
    return policy.allocate(channels)


def print_error_models() -> None:
    """Print a line per scenario and policy with the success under each packet error model."""
    for setting in ("default", "interference-x8"):
        scenario = fu.Scenario.load(setting)
        channels = fu.make_channels(scenario, 1000, seed=0).test
        alone = channels.diagonal(dim1=-2, dim2=-1)
        compared = {name: powers(name, scenario, channels) for name in ("max", "openloop", "pdx")}
        compared["3 / H_ii"] = (3 / alone).clamp_max(scenario.pmax_w)
        for policy, power in compared.items():
            sinr = fu.link.sinr(channels, power)
            rows = {
                "waterfall": fu.link.success(sinr, scenario),
                "step at m": (sinr >= scenario.waterfall).double(),
                "17 blocks": fu.link.success(sinr, scenario) ** 17,
                "150 blocks": fu.link.success(sinr, scenario) ** 150,
            }
            state = fu.link.upload(channels, power, scenario, rule="every-phase")
            rows["arrivals by phases"] = state.arrivals
            found = ", ".join(f"{rule} {weighted(one, scenario):.3f}" for rule, one in rows.items())
            print(f"{setting}, {policy}: {found}")
        gains = alone * scenario.pmax_w
        for blocks in (1, 17, 150):
            success = torch.exp(-blocks * scenario.waterfall / gains)
            print(f"{setting}, tdma, {blocks} blocks: {weighted(success, scenario):.3f}")


def print_kept_cells(cells: int = 6) -> None:
    """Print the worst worker's means in kept cells, with the multipliers of redrawn ones."""
    default = fu.Scenario()
    kept = default.replace(geometry="kept")
    for seed in range(cells):
        channels = fu.make_channels(kept, 1000, seed=seed).test
        judgement = fu.judge(kept, channels, powers("pdx", default, channels))
        worst = {name: round(value.worst, 3) for name, value in judgement.constraints.items()}
        print(f"kept cell {seed}, pdx as shipped: {worst}, {judgement.verdict}")


def main() -> None:
    """Print all figures."""
    print_error_models()
    print_kept_cells()


if __name__ == "__main__":
    main()
