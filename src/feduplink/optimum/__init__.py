"""The optimum of a set of channels: dual solver, and a certificate of how good it is."""

from feduplink.optimum.branch_and_bound import Certificate
from feduplink.optimum.certificate import certify
from feduplink.optimum.distribution import DistributionBound, distribution_bound
from feduplink.optimum.dual_solver import DualSolution, DualStep, solve_dual
from feduplink.optimum.proof_of_optimum import proof_of
from feduplink.optimum.reachability import Unreachable, check_reachable, find_unreachable
from feduplink.optimum.refine import refined, thresholds_with_margin
from feduplink.optimum.repair import repaired
from feduplink.optimum.solution import Optimum, find_optimum

__all__ = [
    "Certificate",
    "DistributionBound",
    "DualSolution",
    "DualStep",
    "Optimum",
    "Unreachable",
    "certify",
    "check_reachable",
    "distribution_bound",
    "find_optimum",
    "find_unreachable",
    "proof_of",
    "refined",
    "repaired",
    "solve_dual",
    "thresholds_with_margin",
]
