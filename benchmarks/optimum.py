"""The optimum at the shipped scenarios: dual and primal value, certificate, and the dual policy.

For every scenario, on 1000 test channels: the dual value, the best primal value, the largest
violation of a constraint and the seconds both took; then the certified gap. And for the dual
policy with multipliers from training channels: its objective, feasibility and distance to the
optimum on unseen channels. Seconds are those of the wall clock; on a busy machine those of the
processor say more.
"""

from __future__ import annotations

import argparse
import json
import os
import time

import torch
from torch import Tensor

from feduplink import Scenario, draw_csi, shipped_scenarios
from feduplink.channels import make_channels
from feduplink.lagrangian import ChannelBatch, Prices
from feduplink.optimum import certify, solve_dual, thresholds_with_margin
from feduplink.policies import DualPolicy, Policy, TuningContext, judge_policy
from feduplink.problem import Problem
from feduplink.randomness import torch_generator


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("scenarios", nargs="*", metavar="SCENARIO", help="(default: all shipped)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--channels", type=int, default=1000)
    parser.add_argument("--unseen", type=int, default=10_000, help="0: skip the dual policy")
    parser.add_argument("--budget", type=float, default=300.0, help="seconds; 0: skip the bound")
    parser.add_argument("--target-gap", type=float, default=1e-3)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    for name in options.scenarios or shipped_scenarios():
        scenario = Scenario.load(name)
        row: dict[str, object] = {"scenario": name, **_solve(scenario, options)}
        if options.unseen:
            row |= _policy(scenario, options)
        print(json.dumps(row | {"load": round(os.getloadavg()[0], 1)}), flush=True)


def _solve(scenario: Scenario, options: argparse.Namespace) -> dict[str, object]:
    csi = make_channels(scenario, options.channels, seed=options.seed).test.to(options.device)
    start, processor = time.perf_counter(), time.process_time()
    solution = solve_dual(scenario, csi)
    row: dict[str, object] = {
        "dual": round(solution.dual_value, 5),
        "primal": round(solution.judgement.objective, 5),
        "violation": round(solution.judgement.violation, 5),
        "evaluations": len(solution.steps),
        "seconds": round(time.perf_counter() - start, 1),
        "cpu_seconds": round(time.process_time() - processor, 1),
    }
    if options.budget:
        problem = Problem.from_scenario(scenario)
        prices = Prices.from_problem(problem, scenario, solution.multipliers)
        certificate = certify(
            ChannelBatch.from_scenario(scenario, csi),
            prices,
            budget_s=options.budget,
            gap=options.target_gap,
        )
        upper = float(certificate.upper.mean()) + solution.constant
        row |= {
            "upper_bound": round(upper, 5),
            "gap": round(upper - solution.judgement.objective, 5),
            "boxes": certificate.boxes,
            "bound_seconds": round(certificate.seconds, 1),
        }
    return row


def _policy(scenario: Scenario, options: argparse.Namespace) -> dict[str, object]:
    """The dual policy on channels that nothing was learned on."""
    start = time.perf_counter()
    policy = DualPolicy.make(scenario, TuningContext(seed=options.seed))
    learned = time.perf_counter() - start
    unseen = draw_csi(scenario, options.unseen, torch_generator(options.seed, "round-channels"))
    unseen = unseen.to(options.device)
    start = time.perf_counter()
    verdict = judge_policy(policy, unseen, scenario)
    seconds = time.perf_counter() - start
    own = solve_dual(scenario, unseen)
    return {
        "unseen": len(unseen),
        "unseen_objective": round(verdict.objective, 5),
        "below_optimum": round(own.dual_value - verdict.objective, 5),
        "unseen_violation": round(verdict.violation, 5),
        "feasible": verdict.feasible,
        "standard_error": round(_standard_error(scenario, unseen, policy), 4),
        "learning_seconds": round(learned, 1),
        "milliseconds_per_channel": round(1000 * seconds / len(unseen), 3),
    }


def _standard_error(scenario: Scenario, csi: Tensor, policy: Policy) -> float:
    """Largest standard error of a constraint's mean on these channels, as a share of it."""
    problem = Problem.from_scenario(scenario)
    raised = thresholds_with_margin(scenario, csi, policy.powers(csi), problem=problem, margin=1.0)
    return float((raised / problem.thresholds).max()) - 1


if __name__ == "__main__":
    main()
