"""The constants of the paper's Theorem 2 at the default setting, and what its bound then says.

    feduplink train --policy pdg --out runs/pdg && feduplink train --policy pdm --out runs/pdm
    python benchmarks/parametrisation_loss.py runs/pdg runs/pdm [--channels 100000]

Prints the mean, root mean square and largest Lipschitz constant ℓ(H) of success rate, rate and
energy efficiency over drawn channels; then, for each policy and ``pdx``, its distance ε from
``dual`` on 1000 test channels, the bound Σ λ L ε with both in root mean square, and what the policy
really loses. docs/theory.md, section 9, says what these are.
"""

from __future__ import annotations

import argparse

import torch
from torch import Tensor

from feduplink import Scenario, draw_csi, load_policy
from feduplink.channels import make_channels
from feduplink.lagrangian import ChannelBatch
from feduplink.policies import DualPolicy, Policy, TuningContext, judge_policy, shipped_pdx


def lipschitz_constants(scenario: Scenario, csi: Tensor) -> dict[str, Tensor]:
    """sup over powers of ‖∇_p f_i‖_1, by channel and worker, (N, L); that of EE from below.

    All are largest where the others' powers vanish. With B = Σ_j β_ij and x the SINR in
    (0, α Pmax], the norm is then f'(x) (α + x B).
    """
    csi = csi.double()
    direct = csi.diagonal(dim1=-2, dim2=-1)
    cross = csi.sum(-1) - direct
    top = direct * scenario.max_power
    rate = torch.maximum(direct, (direct + top * cross) / (1 + top))
    success = torch.zeros_like(direct)
    m = scenario.waterfall
    for x in torch.logspace(-5, 3, 400, dtype=torch.float64) * m:
        sinr = x.clamp_max(top)
        slope = m / sinr**2 * torch.exp(-m / sinr)
        success = torch.maximum(success, slope * (direct + sinr * cross))
    return {"PSR": success, "R": rate, "EE": direct / scenario.static_power_w}


def losses(dual: DualPolicy, policy: Policy, constants: dict[str, float], csi: Tensor) -> str:
    scenario = Scenario()
    best, power = dual.allocate(csi).double(), policy.allocate(csi).double()
    distance = (best - power).abs().amax(-1)
    away = float(distance.square().mean().sqrt())
    multipliers, problem = dual.point.multipliers, dual.problem
    weight, constraints = multipliers.objective_weight, multipliers.constraints
    prices = dict(zip(("PSR", "R", "EE"), (weight, *constraints), strict=True))
    bound = sum(constants[name] * float(price.sum()) for name, price in prices.items()) * away
    batch = ChannelBatch.from_scenario(scenario, csi)
    values = {}
    for name, p in (("dual", best), ("policy", power)):
        sinr = batch.sinr(p)
        total = weight * problem.objective.value(sinr, p)
        for multiplier, constraint in zip(constraints, problem.constraints, strict=True):
            total = total + multiplier * constraint.surplus(sinr, p)
        values[name] = float(total.sum(-1).mean())
    objectives = [judge_policy(p, csi, scenario).objective for p in (dual, policy)]
    other_senders = float(((best > 0) != (power > 0)).double().mean())
    return (
        f"| `{policy.name}` | {1e3 * distance.mean():.2f} | {1e3 * away:.2f} "
        f"| {1e3 * distance.max():.1f} | {other_senders:.1%} | {bound:.3g} "
        f"| {values['dual'] - values['policy']:.4f} | {objectives[0] - objectives[1]:.4f} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", nargs="*", help="directories of trained policies")
    parser.add_argument("--channels", type=int, default=100_000)
    options = parser.parse_args()
    torch.set_num_threads(1)
    scenario = Scenario()
    drawn = draw_csi(scenario, options.channels, torch.Generator().manual_seed(0))
    print("| function | E[ℓ] | √E[ℓ²] | largest of the draw |\n| --- | ---: | ---: | ---: |")
    constants = {}
    for name, values in lipschitz_constants(scenario, drawn).items():
        constants[name] = float(values.square().mean().sqrt())
        print(f"| {name} | {values.mean():.2g} | {constants[name]:.2g} | {values.max():.2g} |")

    splits = make_channels(scenario, seed=0)
    dual = DualPolicy.make(scenario, TuningContext())
    multipliers = dual.point.multipliers
    sums = [float(m.sum()) for m in (multipliers.objective_weight, *multipliers.constraints)]
    print("\nsums of the multipliers: λ_y {:.3g}, λ_r {:.3g}, λ_e {:.3g}\n".format(*sums))
    print(
        "| policy | ε: mean, mW | rms, mW | largest, mW | other senders | bound | loss of 𝓛 "
        "| loss of the objective |\n| --- |" + " ---: |" * 7
    )
    for policy in (*map(load_policy, options.runs), shipped_pdx(scenario)):
        print(losses(dual, policy, constants, splits.test), flush=True)


if __name__ == "__main__":
    main()
