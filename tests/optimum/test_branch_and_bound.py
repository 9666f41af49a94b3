"""A recorded search is a tree whose leaves prove the certificate."""

from __future__ import annotations

import torch

from feduplink.optimum import BranchingTree, LeafProof, certify

from .reference import random_instance


def _recorded(seed: int, workers: int) -> tuple[BranchingTree, torch.Tensor]:
    instance = random_instance(seed, workers=workers, channels=4)
    certificate = certify(instance.batch, instance.prices, max_boxes=10_000, gap=1e-3, record=True)
    assert certificate.tree is not None
    return certificate.tree, certificate.upper


def test_every_node_is_a_leaf_or_has_two_children():
    for seed in range(6):
        tree, _ = _recorded(seed, workers=3)
        inner = tree.parent >= 0
        assert int(inner.sum()) > 0
        halves = torch.zeros(len(tree.parent), 2, dtype=torch.int64)
        halves.index_put_(
            (tree.parent[inner], tree.upper_half[inner].long()), torch.tensor(1), accumulate=True
        )
        assert torch.equal(halves, (~tree.leaf).long()[:, None].expand(-1, 2))
        assert (tree.parent[inner] < inner.nonzero()[:, 0]).all()
        assert torch.equal(tree.channel[inner], tree.channel[tree.parent[inner]])


def test_leaves_claim_the_bounds_of_the_certificate():
    for seed in range(6):
        tree, upper = _recorded(seed, workers=3)
        assert (tree.channel_bounds(4) <= upper + 1e-12).all()
        assert (tree.upper[tree.proof == LeafProof.EMPTY] == -torch.inf).all()
        tangents = tree.tangent_row[tree.proof == LeafProof.TANGENT]
        assert torch.equal(tangents.sort().values, torch.arange(len(tree.tangents.sinr_slope)))
        assert (tree.tangents.sinr_slope >= 0).all()


def test_the_tree_is_recorded_only_on_request():
    instance = random_instance(0, workers=2, channels=2)
    assert certify(instance.batch, instance.prices, max_boxes=1000).tree is None
