"""True proofs are accepted, damaged ones refused, without the search, its formulas or PyTorch."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import feduplink
from feduplink.optimum import export_proof
from feduplink.proofs import Proof, Statement, read_proof, write_proof
from feduplink.proofs.checker import find_error
from feduplink.proofs.format import Node

from .damage import DAMAGES, damage, has, is_refused, matters
from .plain_search import plain_proof
from .reference import is_wrong, lagrangian
from .searched import searched_optimum, searched_proof

#: Boxes of proofs that the second checker, which is slow, examines.
_MOST_BOXES = 1000


@pytest.mark.parametrize("seed", range(20))
def test_proofs_of_a_plain_search_hold(seed: int):
    assert find_error(plain_proof(seed, workers=2 + seed % 3)) is None


@pytest.mark.parametrize("seed", range(8))
def test_proofs_of_the_search_hold(seed: int):
    assert find_error(searched_proof(seed)) is None


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100))
def test_two_hundred_proofs_hold(seed: int):
    assert find_error(plain_proof(1000 + seed, workers=2 + seed % 4, depth=7)) is None
    proof = searched_proof(1000 + seed, gap=1e-3)
    assert find_error(proof) is None
    if len(proof.tree.node) <= _MOST_BOXES:
        assert not is_wrong(proof)


def _refused_damages(seeds: range, per_proof: int, directory: Path) -> Counter[str]:
    """Refused damages of one number that matter, counted by kind."""
    refused: Counter[str] = Counter()
    whole, damaged = directory / "whole.h5", directory / "damaged.h5"
    for seed in seeds:
        rng = np.random.default_rng(seed)
        proof = searched_proof(seed) if seed % 2 else plain_proof(seed)
        if len(proof.tree.node) > _MOST_BOXES:
            continue
        write_proof(whole, proof)
        assert not is_refused(whole)
        names = [name for name in DAMAGES if has(whole, name)]
        for name in rng.permutation(names).tolist()[:per_proof]:
            for _ in range(20):
                channel = damage(damaged, whole, name, rng)
                if matters(damaged, channel):
                    assert is_refused(damaged), (seed, name)
                    refused[name] += 1
                    break
    return refused


def test_damaged_proofs_are_refused(tmp_path: Path):
    assert _refused_damages(range(8), 4, tmp_path).total() >= 20


@pytest.mark.slow
def test_a_thousand_damaged_proofs_are_refused(tmp_path: Path):
    refused = _refused_damages(range(100, 200), 14, tmp_path)
    print(refused)
    assert refused.total() >= 1000
    assert set(refused) == set(DAMAGES)
    assert min(refused.values()) >= 5


def test_a_false_bound_is_refused_with_channel_and_box():
    """A bound under the value of some powers is false, whatever its boxes."""
    proof = plain_proof(3)
    channel = 2
    values = [
        lagrangian(proof, proof.csi[channel], proof.problem.pmax_w * share)
        for share in np.random.default_rng(0).uniform(0, 1, (500, 3))
    ]
    upper = proof.upper.copy()
    upper[channel] = max(values) - 1e-9
    failure = find_error(replace(proof, upper=upper))
    assert failure is not None
    assert failure.startswith("channel 2, box ")
    assert f"bound {upper[channel]:.9g} claimed" in failure


@pytest.mark.parametrize("seed", range(6))
def test_a_bound_slightly_under_the_value_of_some_powers_is_refused(seed: int):
    """The best powers of the search are close to the bound; a bound just under them is false."""
    optimum = searched_optimum(seed)
    proof = export_proof(optimum)
    powers = optimum.certificate.power.numpy()
    for channel, power in enumerate(powers):
        reached = lagrangian(proof, proof.csi[channel], power)
        upper = proof.upper.copy()
        upper[channel] = reached - 1e-11 * abs(reached)
        assert not _holds(proof, upper)


def test_a_bound_within_rounding_of_its_own_is_refused():
    """The least accepted bound includes the rounding of the checker."""
    proof = plain_proof(0)
    low, high = np.zeros_like(proof.upper), proof.upper.copy()
    low[0] -= 10
    for _ in range(80):
        middle = np.where(np.arange(len(low)) == 0, (low + high) / 2, high)
        low, high = (low, middle) if _holds(proof, middle) else (middle, high)
    assert _holds(proof, high)
    one_less = high.copy()
    one_less[0] = np.nextafter(high[0], -np.inf) - 1e-15 * abs(high[0])
    assert not _holds(proof, one_less)


def _holds(proof: Proof, upper: np.ndarray) -> bool:
    return find_error(replace(proof, upper=upper)) is None


def test_an_incomplete_tree_is_refused():
    proof = plain_proof(1)
    tree = proof.tree
    last = len(tree.node) - 1
    shorter = replace(
        tree, node=tree.node[:last], worker=tree.worker[:last], split_at=tree.split_at[:last]
    )
    node = tree.node.copy()
    node[np.flatnonzero(tree.split)[-1]] = Node.MONOTONE
    for broken in (shorter, replace(tree, node=node)):
        failure = find_error(replace(proof, tree=broken))
        assert failure == "incomplete branching tree: child boxes are missing"


def test_a_box_falsely_marked_empty_is_refused():
    proof = plain_proof(1)
    node = proof.tree.node.copy()
    leaf = int(np.flatnonzero(node == Node.MONOTONE)[0])
    node[leaf] = Node.EMPTY
    failure = find_error(replace(proof, tree=replace(proof.tree, node=node)))
    assert failure is not None
    assert failure.endswith(f"box {leaf}: claimed to be empty, but is not")


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ({"objective": 1e3}, "objective 1000 claimed, "),
        ({"upper_bound": -1e3}, "upper bound -1000 claimed, "),
    ],
)
def test_statements_that_do_not_follow_are_refused(statement: dict[str, float], words: str):
    proof = plain_proof(2)
    stated = Statement(**{**vars(proof.statement), **statement})
    failure = find_error(replace(proof, statement=stated))
    assert failure is not None
    assert failure.startswith(words)


def test_violated_constraints_are_refused():
    proof = next(p for seed in range(9) if (p := plain_proof(seed)).problem.active.any())
    problem = proof.problem
    strict = replace(problem, limits=np.where(problem.active, problem.limits * 1.2, 0.0))
    failure = find_error(replace(proof, problem=strict))
    assert failure is not None
    assert failure.startswith("violation of the constraints by at most 0 of their limits claimed")


def test_several_processes_find_the_same_error():
    """Channels in several processes, with the same first error."""
    proof = plain_proof(5, channels=6)
    upper = proof.upper.copy()
    upper[4] -= 5
    wrong = replace(proof, upper=upper)
    alone = find_error(wrong)
    assert alone is not None
    assert find_error(proof, boxes_at_once=100) is None
    assert find_error(wrong, processes=2, boxes_at_once=100) == alone


def test_a_written_proof_holds(tmp_path: Path):
    proof = searched_proof(4)
    path = tmp_path / "proof.h5"
    write_proof(path, proof)
    assert find_error(read_proof(path)) is None


#: A check in an interpreter where of the package only what the checker may import can be found.
CHECK_APART = """
import importlib.abc, pathlib, sys, types
package = types.ModuleType("feduplink")
package.__path__ = [sys.argv[1]]  # as a directory of modules: its __init__ imports the search
sys.modules["feduplink"] = package

class Alone(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        allowed = ("proofs", "errors", "storage", "progress", "process_pool")
        if name.startswith("feduplink.") and name.split(".")[1] not in allowed:
            raise ImportError(name)
        if name.split(".")[0] in ("torch", "scipy"):
            raise ImportError(name)

sys.meta_path.insert(0, Alone())
from feduplink.proofs import read_proof
from feduplink.proofs.checker import find_error
print(find_error(read_proof(sys.argv[2])))
"""


def test_the_checker_needs_neither_the_search_nor_pytorch(tmp_path: Path):
    write_proof(tmp_path / "proof.h5", plain_proof(0))
    done = subprocess.run(
        [sys.executable, "-c", CHECK_APART, Path(feduplink.__file__).parent, tmp_path / "proof.h5"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "None\n"
