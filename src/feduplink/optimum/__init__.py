"""The optimum on a set of channels: dual solver, feasible powers and certified upper bounds."""

from feduplink.optimum.bounds import (
    DistributionBound,
    Unreachable,
    certify,
    check_reachable,
    distribution_bound,
    find_unreachable,
    interference_free_bound,
)
from feduplink.optimum.boxes import Boxes, PowerBoxes, split
from feduplink.optimum.branch_and_bound import (
    MAX_BOXES,
    BranchingTree,
    Budget,
    Certificate,
    Target,
)
from feduplink.optimum.calibration import (
    COARSE,
    FINE,
    PRIMAL_TOLERANCE,
    DualDescent,
    calibrate_multipliers,
    refine_multipliers,
    thresholds_with_margin,
)
from feduplink.optimum.concave_relaxation import Relaxation, RelaxedBoxes, ascend
from feduplink.optimum.dual import PRIMAL_GAP, SEARCH, DualSolution, DualStep, solve_dual
from feduplink.optimum.dual_function import DualFunction, Vector
from feduplink.optimum.envelope import DrawEnvelope, Envelope, WorkerValue
from feduplink.optimum.log_power_search import RelaxationSearch
from feduplink.optimum.monotone_bound import BoundedBoxes, MonotoneBound
from feduplink.optimum.power_search import PowerSearch
from feduplink.optimum.primal_recovery import (
    MAX_VIOLATION,
    LocalAscent,
    combine_maxima,
    recover_primal,
    repair_by_silence,
)
from feduplink.optimum.proof_export import export_proof
from feduplink.optimum.solution import OPTIMUM, Optimum, find_optimum

__all__ = [
    "COARSE",
    "FINE",
    "MAX_BOXES",
    "MAX_VIOLATION",
    "OPTIMUM",
    "PRIMAL_GAP",
    "PRIMAL_TOLERANCE",
    "SEARCH",
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
    "calibrate_multipliers",
    "certify",
    "check_reachable",
    "combine_maxima",
    "distribution_bound",
    "export_proof",
    "find_optimum",
    "find_unreachable",
    "interference_free_bound",
    "recover_primal",
    "refine_multipliers",
    "repair_by_silence",
    "solve_dual",
    "split",
    "thresholds_with_margin",
]
