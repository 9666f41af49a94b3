"""Proof files of a certified optimum, and the program that checks them.

A proof says of a set of channels: these powers reach this objective, and no policy that meets the
constraints exceeds that bound. What is written here is apart from the search that found them: it
imports nothing of it, nor the formulas it uses, and needs NumPy, h5py and, to check, python-flint
(``pip install 'feduplink[check]'``). docs/proofs.md has the format and the argument.
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
