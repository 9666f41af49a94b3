"""The optimum: dual solver, the policy it gives, and a certificate of how good it is."""

from feduplink.optimum.calibration import calibrated, shipped_pdx
from feduplink.optimum.certificate import Certificate, certify
from feduplink.optimum.dual import DualSolution, DualStep, solve_dual
from feduplink.optimum.reachability import Unreachable, shut_out, unreachable
from feduplink.optimum.repair import repaired
from feduplink.optimum.solution import (
    DistributionBound,
    Optimum,
    distribution_bound,
    find_optimum,
    learn_dual_policy,
    learned_on_fresh_channels,
)

__all__ = [
    "Certificate",
    "DistributionBound",
    "DualSolution",
    "DualStep",
    "Optimum",
    "Unreachable",
    "calibrated",
    "certify",
    "distribution_bound",
    "find_optimum",
    "learn_dual_policy",
    "learned_on_fresh_channels",
    "repaired",
    "shipped_pdx",
    "shut_out",
    "solve_dual",
    "unreachable",
]
