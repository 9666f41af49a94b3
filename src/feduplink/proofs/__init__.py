"""Proof files of a certified optimum, and the program that checks them.

A proof states, for a set of channels, that given powers achieve an objective, and that no policy
that satisfies the constraints exceeds an upper bound. The checker is independent of the search: it
imports neither the search nor the formulas of the search, only NumPy, h5py and, to check,
python-flint (``pip install 'feduplink[check]'``). docs/proofs.md describes the format and the
argument.
"""

from feduplink.proofs.format import (
    Proof,
    ProofTree,
    ProvedProblem,
    Statement,
    read_proof,
    write_proof,
)

__all__ = ["Proof", "ProofTree", "ProvedProblem", "Statement", "read_proof", "write_proof"]
