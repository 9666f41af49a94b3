"""Power policies: one per file, all with ``allocate(H)``."""

from feduplink.policies.architecture import Architecture, GraphArchitecture
from feduplink.policies.base import NeuralPolicy, Policy
from feduplink.policies.deployment import Deployment
from feduplink.policies.dual import DualPolicy
from feduplink.policies.full_power import FullPower
from feduplink.policies.lagrangian_policy import DualPoint, LagrangianPolicy
from feduplink.policies.openloop import OpenLoop
from feduplink.policies.orth import Orthogonal, UnselectedOrthogonal
from feduplink.policies.pdg import GraphPolicy
from feduplink.policies.pdm import PerceptronPolicy
from feduplink.policies.pdx import UnrolledPolicy, shipped_network, shipped_pdx
from feduplink.policies.rand import RandomPower, UnselectedRandomPower
from feduplink.policies.storage import POLICY_FILE, load_policy, policy_class, save_policy
from feduplink.policies.unrolled_network import UnrolledNetwork

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
