"""The optimum of a set of channels: dual solver, and a certificate of how good it is."""

from feduplink.optimum.bounds import (
    DistributionBound,
    Unreachable,
    check_reachable,
    distribution_bound,
    find_unreachable,
    interference_free_bound,
)
from feduplink.optimum.boxes import Boxes, PowerBoxes, split
from feduplink.optimum.branch_and_bound import (
    EMPTY,
    MAX_BOXES,
    TANGENT,
    BranchingTree,
    Budget,
    Certificate,
    Target,
)
from feduplink.optimum.calibration import (
    FAR,
    NEAR,
    PRIMAL_TOLERANCE,
    DualDescent,
    calibrated,
    refined,
    thresholds_with_margin,
)
from feduplink.optimum.certificate import certify
from feduplink.optimum.concave_relaxation import Relaxation, RelaxedBoxes, ascend
from feduplink.optimum.dual import PRIMAL_GAP, SEARCH, DualSolution, DualStep, solve_dual
from feduplink.optimum.dual_function import DualFunction, Vector
from feduplink.optimum.envelope import DrawEnvelope, Envelope, WorkerValue
from feduplink.optimum.log_power_search import RelaxationSearch
from feduplink.optimum.monotone_bound import BoundedBoxes, MonotoneBound
from feduplink.optimum.power_search import PowerSearch
from feduplink.optimum.primal_recovery import MET, LocalAscent, recombined, recovered, repaired
from feduplink.optimum.proof_export import proof_of
from feduplink.optimum.solution import Optimum, find_optimum

__all__ = [
    "EMPTY",
    "FAR",
    "MAX_BOXES",
    "MET",
    "NEAR",
    "PRIMAL_GAP",
    "PRIMAL_TOLERANCE",
    "SEARCH",
    "TANGENT",
    "BoundedBoxes",
    "Boxes",
    "BranchingTree",
    "Budget",
    "Certificate",
    "DistributionBound",
    "DrawEnvelope",
    "DualDescent",
    "DualFunction",
    "DualSolution",
    "DualStep",
    "Envelope",
    "LocalAscent",
    "MonotoneBound",
    "Optimum",
    "PowerBoxes",
    "PowerSearch",
    "Relaxation",
    "RelaxationSearch",
    "RelaxedBoxes",
    "Target",
    "Unreachable",
    "Vector",
    "WorkerValue",
    "ascend",
    "calibrated",
    "certify",
    "check_reachable",
    "distribution_bound",
    "find_optimum",
    "find_unreachable",
    "interference_free_bound",
    "proof_of",
    "recombined",
    "recovered",
    "refined",
    "repaired",
    "solve_dual",
    "split",
    "thresholds_with_margin",
]
