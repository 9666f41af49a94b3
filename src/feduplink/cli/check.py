"""``feduplink check``: whether a proof holds."""

from __future__ import annotations

import argparse

import numpy as np
from numpy.typing import NDArray

from feduplink.cli.console import console
from feduplink.errors import InputError, ProofError
from feduplink.proofs import Proof, read_proof
from feduplink.proofs.format import check_recording
from feduplink.tables import TextTable


def run(args: argparse.Namespace) -> None:
    """Read, check, and say what was proved, or where the proof fails."""
    try:
        from feduplink.proofs.checker import check_proof
    except ModuleNotFoundError:
        raise InputError(
            "check: needs python-flint, which is not installed; pip install 'feduplink[check]'."
        ) from None
    proof = read_proof(args.proof)
    if args.channels:
        check_recording(proof, args.channels)
    verdict = check_proof(proof, processes=args.processes)
    if verdict.failure is not None:
        raise ProofError(verdict.failure)
    statement = proof.statement
    entries = {
        "channels": f"{verdict.channels} of {len(proof.floor)} workers",
        "boxes": f"{verdict.boxes}, {verdict.leaves} of them leaves",
        "objective, at least": f"{statement.objective:.6g}",
        "bound on every policy": f"{statement.upper_bound:.6g}",
        "seconds": f"{verdict.seconds:.1f}",
    }
    out = console()
    out.print(TextTable.of_entries(_title(proof), entries).plain())
    if not args.channels:
        out.print(f"SHA-256 of the channels: {proof.channels_sha256}")
    out.print(f"proof holds: {_conclusion(proof)}")


def _title(proof: Proof) -> str:
    """The problem that the proof is about, as far as a line can hold it."""
    problem = proof.problem
    limits = [
        f"{name} ≥ {_range(row[active])}"
        for name, row, active in zip(
            problem.constraints, problem.limits, problem.active, strict=True
        )
        if active.any()
    ]
    return (
        f"{problem.objective} ({problem.utility}), {', '.join(limits) or 'no constraints'}, Pmax "
        f"{_range(problem.pmax_w)} W"
    )


def _range(values: NDArray[np.float64]) -> str:
    low, high = float(values.min()), float(values.max())
    return f"{low:g}" if low == high else f"{low:g} to {high:g}"


def _conclusion(proof: Proof) -> str:
    violation = proof.statement.violation
    missed = f"miss no limit by more than {violation:.2g} of it"
    met = "meet the constraints" if violation == 0 else missed
    return (
        f"the powers in it {met} and reach the objective, and no policy that meets the constraints "
        "on these channels exceeds the bound"
    )
