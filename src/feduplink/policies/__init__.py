"""Power policies: one per file, all with ``allocate(H)``."""

from feduplink.policies.architecture import Architecture, GraphArchitecture
from feduplink.policies.base import NeuralPolicy, Policy
from feduplink.policies.dual import DualPolicy
from feduplink.policies.full_power import FullPower
from feduplink.policies.openloop import OpenLoop
from feduplink.policies.orth import Orthogonal
from feduplink.policies.pdg import GraphPolicy
from feduplink.policies.pdm import PerceptronPolicy
from feduplink.policies.pdx import UnrolledNetwork, UnrolledPolicy
from feduplink.policies.rand import RandomPower
from feduplink.policies.storage import POLICIES, POLICY_FILE, load_policy, save_policy

__all__ = [
    "POLICIES",
    "POLICY_FILE",
    "Architecture",
    "DualPolicy",
    "FullPower",
    "GraphArchitecture",
    "GraphPolicy",
    "NeuralPolicy",
    "OpenLoop",
    "Orthogonal",
    "PerceptronPolicy",
    "Policy",
    "RandomPower",
    "UnrolledNetwork",
    "UnrolledPolicy",
    "load_policy",
    "save_policy",
]
