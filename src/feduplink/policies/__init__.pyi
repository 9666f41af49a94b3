from .architecture import Architecture, GraphArchitecture
from .base import NeuralPolicy, Policy
from .deployment import Deployment
from .dual import DualPolicy
from .full_power import FullPower
from .lagrangian_policy import DualPoint, LagrangianPolicy
from .openloop import OpenLoop
from .orth import Orthogonal, UnselectedOrthogonal
from .pdg import GraphPolicy
from .pdm import PerceptronPolicy
from .pdx import UnrolledPolicy, shipped_network, shipped_pdx
from .rand import RandomPower, UnselectedRandomPower
from .storage import POLICY_FILE, load_policy, policy_class, save_policy
from .unrolled_network import UnrolledNetwork

__all__ = [
    "POLICY_FILE",
    "Architecture",
    "Deployment",
    "DualPoint",
    "DualPolicy",
    "FullPower",
    "GraphArchitecture",
    "GraphPolicy",
    "LagrangianPolicy",
    "NeuralPolicy",
    "OpenLoop",
    "Orthogonal",
    "PerceptronPolicy",
    "Policy",
    "RandomPower",
    "UnrolledNetwork",
    "UnrolledPolicy",
    "UnselectedOrthogonal",
    "UnselectedRandomPower",
    "load_policy",
    "policy_class",
    "save_policy",
    "shipped_network",
    "shipped_pdx",
]
