"""Power policies: one per file, all with ``allocate(H)``."""

from feduplink.policies.base import FunctionPolicy, NeuralPolicy, Policy
from feduplink.policies.baselines import (
    FullPower,
    Orthogonal,
    RandomPower,
    UnselectedOrthogonal,
    UnselectedRandomPower,
    largest_efficient_power,
    select,
)
from feduplink.policies.dual import DualPolicy, LagrangianPolicy, kept_point, shipped_point
from feduplink.policies.open_loop import OpenLoop
from feduplink.policies.paper import (
    GRAPH_HIDDEN,
    PERCEPTRON_HIDDEN,
    DenseGraphConvolution,
    GraphPolicy,
    PerceptronPolicy,
    normalised_adjacency,
)
from feduplink.policies.pdx import CHANNELS, UnrolledPolicy, shipped_network, shipped_pdx
from feduplink.policies.pdx_network import (
    UnrolledNetwork,
    better_end,
    lagrangian_at_gates,
    price_unit,
)
from feduplink.policies.store import (
    POLICY_FILE,
    PolicyLike,
    default_policies,
    load_policy,
    made_for,
    made_for_sentence,
    make_policies,
    make_policy,
    policy_class,
    save_policy,
)

__all__ = [
    "CHANNELS",
    "GRAPH_HIDDEN",
    "PERCEPTRON_HIDDEN",
    "POLICY_FILE",
    "DenseGraphConvolution",
    "DualPolicy",
    "FullPower",
    "FunctionPolicy",
    "GraphPolicy",
    "LagrangianPolicy",
    "NeuralPolicy",
    "OpenLoop",
    "Orthogonal",
    "PerceptronPolicy",
    "Policy",
    "PolicyLike",
    "RandomPower",
    "UnrolledNetwork",
    "UnrolledPolicy",
    "UnselectedOrthogonal",
    "UnselectedRandomPower",
    "better_end",
    "default_policies",
    "kept_point",
    "lagrangian_at_gates",
    "largest_efficient_power",
    "load_policy",
    "made_for",
    "made_for_sentence",
    "make_policies",
    "make_policy",
    "normalised_adjacency",
    "policy_class",
    "price_unit",
    "save_policy",
    "select",
    "shipped_network",
    "shipped_pdx",
    "shipped_point",
]
