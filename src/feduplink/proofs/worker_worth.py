"""What a worker on the air adds to the Lagrangian of a channel, from problem and multipliers.

With multipliers λ_ki ≥ 0 on E[1(p_i > 0) (c_ki − limit_ki)] ≥ 0 and weights w of the objective's
measure f, the Lagrangian is Σ_i 1(p_i > 0) (a_i PSR_i + b_i R_i + c_i EE_i − d_i) with a, b and c
the sums of w and λ over the measures and d_i = Σ_k λ_ki limit_ki.
"""

from __future__ import annotations

from dataclasses import dataclass

from flint import arb

from feduplink.proofs import balls
from feduplink.proofs.balls import ZERO
from feduplink.proofs.proof import Floats, Proof, ProvedMeasure


@dataclass(frozen=True)
class WorkerWorth:
    """a PSR + b R + c EE − d of one worker on the air.

    Attributes:
        success, rate, efficiency, cost: a, b, c and d.
        waterfall: m.
        static_power_w, inefficiency: P_c and μ.
    """

    success: arb
    rate: arb
    efficiency: arb
    cost: arb
    waterfall: arb
    static_power_w: arb
    inefficiency: arb

    def at_most(self, sinr: arb) -> arb:
        """a PSR + (b + c / P_c) R − d: with all powers that lead to ``sinr``, no less."""
        per_rate = self.rate + self.efficiency / self.static_power_w
        return self.of_sinr(sinr, per_rate) - self.cost

    def of_sinr(self, sinr: arb, per_rate: arb) -> arb:
        """a PSR + ``per_rate`` R, which does not fall with the SINR."""
        value = ZERO
        if not self.success.is_zero():
            value += self.success * balls.success(sinr, self.waterfall)
        if not per_rate.is_zero():
            value += per_rate * balls.rate(sinr)
        return value

    def per_watt(self, power: arb) -> arb:
        """q = 1 / (μ p + P_c), so that EE = R q."""
        return 1 / (self.inefficiency * power + self.static_power_w)


def worker_worths(proof: Proof) -> list[WorkerWorth]:
    """What every worker is worth, L of them."""
    problem = proof.problem
    worths = []
    for worker, weight in enumerate(proof.objective_weight):
        price = dict.fromkeys(ProvedMeasure, ZERO)
        price[problem.objective] += arb(float(weight))
        cost = ZERO
        for measure, multipliers, limits in zip(
            problem.constraints, proof.multipliers, problem.limits, strict=True
        ):
            multiplier = arb(float(multipliers[worker]))
            price[measure] += multiplier
            cost += multiplier * arb(float(limits[worker]))
        worths.append(
            WorkerWorth(
                price[ProvedMeasure.SUCCESS],
                price[ProvedMeasure.RATE],
                price[ProvedMeasure.EFFICIENCY],
                cost,
                arb(problem.waterfall),
                arb(float(problem.static_power_w[worker])),
                arb(problem.amplifier_inefficiency),
            )
        )
    return worths


def under_the_floor(worths: list[WorkerWorth], floor: Floats) -> arb:
    """What all workers on the air at SINRs of no more than their ``floor`` (L,) add, at most.

    To silence them costs no more than this, and harms nobody: the others' SINRs rise. So the
    largest Lagrangian is at most this much above that of powers whose senders are all above.
    """
    total = ZERO
    for worth, sinr in zip(worths, floor, strict=True):
        total += balls.larger(worth.at_most(arb(float(sinr))), ZERO)
    return total
