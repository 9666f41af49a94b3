from .branch_and_bound import Certificate
from .certificate import certify
from .distribution import DistributionBound, distribution_bound
from .dual_solver import DualSolution, DualStep, solve_dual
from .proof_of_optimum import proof_of
from .reachability import Unreachable, check_reachable, find_unreachable
from .refine import refined, thresholds_with_margin
from .repair import repaired
from .solution import Optimum, find_optimum

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
