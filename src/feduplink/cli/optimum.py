"""``feduplink optimum``: the best any policy can do, with proof."""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterable

import torch
from torch import Tensor

from feduplink.channels import Channels
from feduplink.cli.channel_source import channels_from
from feduplink.cli.console import console
from feduplink.cli.tables import terminal_table
from feduplink.errors import InputError
from feduplink.lagrangian import DualPoint
from feduplink.optimum import (
    DistributionBound,
    Optimum,
    Unreachable,
    distribution_bound,
    find_optimum,
    solve_dual,
)
from feduplink.optimum.proof_export import check_stateable, proof_of
from feduplink.policies import DualPolicy
from feduplink.problem import Problem
from feduplink.proofs import write_proof
from feduplink.scenario import Scenario
from feduplink.storage.run_directory import output_directory
from feduplink.validation import usable_device
from feduplink.workflows.evaluation import compare
from feduplink.workflows.optimum_files import write_optimum

#: That a statement for the distribution is made from: their spread has to be known.
_FEWEST_CHANNELS = 2


def run(args: argparse.Namespace) -> None:
    """Solve, certify, write everything to --out and say what was found."""
    directory = output_directory(args)
    if args.whole_file and not args.channels:
        raise InputError("whole-file: accepted only with --channels FILE.")
    usable_device(args.device)  # before anything takes long
    scenario, channels = channels_from(args)
    csi = channels.csi if args.whole_file else channels.test
    if args.confidence is not None and len(channels.test) < _FEWEST_CHANNELS:
        raise InputError(
            f"confidence: {len(channels.test)} test channels say nothing about a distribution; "
            f"accepted: {_FEWEST_CHANNELS} or more."
        )
    if args.certificate is not None:
        if args.certificate.is_dir():
            raise InputError(f"certificate: {args.certificate} is a directory; accepted: a file.")
        check_stateable(Problem.from_scenario(scenario), scenario)
    record = args.certificate is not None
    optimum = search_optimum(scenario, csi, args.budget, args.device, record=record)
    distribution = None
    if args.confidence is not None:
        distribution = _bound_distribution(scenario, channels, args.confidence, args.budget)
    point = DualPoint(optimum.solution.primal_multipliers, optimum.problem.thresholds)
    policy = DualPolicy(scenario, point)
    outcomes = compare(
        {policy.name: policy}, csi, scenario, seed=args.seed, recorded=channels.recorded
    )
    optimum = optimum.improved_by(outcomes.powers)
    notes = channels.notes
    if args.whole_file:
        notes.append(f"the optimum is that of all {len(csi)} channels")
    write_optimum(
        directory,
        optimum,
        policy,
        outcomes,
        distribution,
        notes=notes,
        seed=args.seed,
        channels={**channels.as_metrics(), "count": len(csi)},
    )
    if args.certificate is not None:
        rows = _recorded_rows(channels, whole_file=args.whole_file)
        write_proof(args.certificate, proof_of(optimum, rows=rows))

    out = console()
    out.print(channels.headline(csi))
    out.print(terminal_table(outcomes.table(optimum, notes)))
    if distribution is not None:
        out.print(distribution.sentence(recorded=channels.recorded))
    out.print(f"allocations.h5, duality.png, the dual policy and metrics.json in {directory}")
    if args.certificate is not None:
        out.print(f"the proof in {args.certificate}: feduplink check {args.certificate}")


def search_optimum(
    scenario: Scenario,
    csi: Tensor,
    budget_s: float,
    device: str = "cpu",
    *,
    record: bool = False,
) -> Optimum:
    """The optimum on channels (N, L, L); warns of every worker that its thresholds shut out."""
    optimum = find_optimum(scenario, csi, budget_s=budget_s, device=device, record=record)
    warn_of(optimum.unreachable)
    return optimum


def warn_of(unreachable: Iterable[Unreachable]) -> None:
    """A warning for every worker that its thresholds shut out."""
    for entry in unreachable:
        warnings.warn(f"thresholds: {entry}", stacklevel=2)


def _bound_distribution(
    scenario: Scenario, channels: Channels, confidence: float, budget_s: float
) -> DistributionBound:
    """Multipliers from the training channels, the bound from those for the test."""
    multipliers = solve_dual(scenario, channels.training).multipliers
    return distribution_bound(
        scenario, multipliers, channels.test, confidence=confidence, budget_s=budget_s
    )


def _recorded_rows(channels: Channels, *, whole_file: bool) -> Tensor | None:
    """Where the channels of the optimum are in their recording; None if they were drawn."""
    if not channels.recorded:
        return None
    return torch.arange(len(channels.csi)) if whole_file else channels.rows["test"]
