"""Optimum of a problem on a set of channels, with a certified upper bound."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from feduplink.errors import InputError
from feduplink.scenario import Scenario
from feduplink.settings import CHANNELS_PER_SPLIT
from feduplink.tables import TextTable
from feduplink.validation import import_extra
from feduplink.workflows.evaluation import (
    Outcome,
    judge_policies,
    optimum_entries,
    warn_unreachable,
)
from feduplink.workflows.options import (
    BudgetS,
    ChannelsOption,
    ChannelsPerSplit,
    CommandLine,
    Device,
    MaxBoxes,
    Reading,
    Seed,
    workflow,
)
from feduplink.workflows.result import Result

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.axes import Axes
    from numpy.typing import NDArray
    from torch import Tensor

    from feduplink.optimum import DistributionBound, Optimum
    from feduplink.policies import DualPolicy
    from feduplink.proofs import Proof
    from feduplink.reporting.style import StyledFigure

#: Minimum number of channels for a bound on the distribution, which needs a sample variance.
_MIN_BOUND_CHANNELS = 2


@dataclass(frozen=True, repr=False, eq=False)
class OptimumResult(Result):
    """Result of :func:`find_optimum`: best powers found and a certified upper bound.

    The bound holds for policies that set one power per worker and round, with arrivals determined
    by the SINR with all workers active.

    Attributes:
        optimum: powers, multipliers and certificate.
        outcome: performance of the policy ``dual`` at the optimal multipliers, on these channels.
        distribution: bound for the distribution of the channels, if requested.
        channels: origin of the channels, as in ``metrics.json``.
        origin: origin of the channels in words.
        notes: remarks for the reader, without initial capital and full stop.
        rows: indices of the channels in their recording, (N,); None for drawn channels.
        seed: seed of all random numbers.

    >>> import feduplink as fu
    >>> best = fu.find_optimum(fu.Scenario(workers=2), channels_per_split=5)
    >>> best.power.shape, best.objective <= best.upper_bound
    (torch.Size([5, 2]), True)
    """

    kind = "optimum"
    files = "allocations.h5, duality.png, the dual policy and metrics.json"
    table_file = "comparison.md"
    parts = (Outcome,)

    optimum: Optimum
    outcome: Outcome
    distribution: DistributionBound | None
    channels: dict[str, Any]
    origin: str
    notes: tuple[str, ...]
    rows: Tensor | None
    seed: int

    @property
    def scenario(self) -> Scenario:
        """The cell, the radio and the problem."""
        return self.optimum.scenario

    @property
    def power(self) -> Tensor:
        """Best powers found, (N, L), W."""
        return self.optimum.power

    @property
    def objective(self) -> float:
        """Objective at the best powers found."""
        return self.optimum.objective

    @property
    def upper_bound(self) -> float:
        """Certified upper bound on the objective of every policy that satisfies the constraints."""
        return self.optimum.upper_bound

    @property
    def gap(self) -> float:
        """Optimality gap, upper bound − objective."""
        return self.optimum.gap

    @property
    def policy(self) -> DualPolicy:
        """Policy ``dual`` at the optimal multipliers."""
        return dual_policy(self.optimum)

    def write_proof(self, path: str | Path) -> Path:
        """Write the proof of the bound, including the channels, for :func:`check_proof`.

        Args:
            path: file to write (HDF5).

        Returns:
            Path of the file.

        Raises:
            InputError: if the bound cannot be stated in the format of proofs.
        """
        from feduplink.optimum.proof_export import export_proof
        from feduplink.proofs import write_proof

        write_proof(Path(path), export_proof(self.optimum, rows=self.rows))
        return Path(path)

    def table(self) -> TextTable:
        """Table with a row for the policy ``dual`` and one for the optimum."""
        from feduplink.problem import objective_unit
        from feduplink.reporting.comparison import comparison_table

        notes = list(self.notes)
        if self.distribution is not None:
            unit = objective_unit(self.scenario)
            notes.append(self.distribution.sentence(unit, recorded=self.rows is not None))
        judgements = {"dual": self.outcome.judgement}
        return comparison_table(judgements, self.scenario, self.optimum, notes)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Plot the primal and the dual value against the evaluations of the dual function.

        Args:
            ax: matplotlib axes to draw in; None: a new figure, with the violation of constraints.

        Returns:
            The axes of the values.
        """
        from feduplink.reporting.optimum import plot_duality, plot_values

        if ax is None:
            ax = plot_duality(self.optimum).axes[0]
        else:
            plot_values(ax, self.optimum)
        return ax

    def records(self) -> Iterator[dict[str, Any]]:
        """Rows with the columns channel, worker and power_w."""
        for channel, powers in enumerate(self.power.tolist()):
            for worker, power in enumerate(powers, 1):
                yield {"channel": channel, "worker": worker, "power_w": power}

    def metrics(self) -> dict[str, Any]:
        """Scenario, optimum, the policy ``dual`` and the bound for the distribution."""
        return {
            "title": "The optimum, with proof",
            "scenario": self.scenario.model_dump(mode="json"),
            "policies": {"dual": self.outcome.as_metrics()},
            **optimum_entries(self.optimum, {"dual": self.outcome.judgement}),
            **({"distribution": self.distribution.as_metrics()} if self.distribution else {}),
            "seed": self.seed,
            "channels": self.channels,
        }

    def write_files(self, directory: Path) -> None:
        """Write the table, the powers and bounds of every channel, and the policy ``dual``."""
        from feduplink.policies import save_policy

        super().write_files(directory)
        self._write_allocations(directory / "allocations.h5")
        save_policy(self.policy, directory)

    def figures(self) -> dict[str, StyledFigure]:
        """Primal and dual value, and violation of the constraints."""
        from feduplink.reporting.optimum import plot_duality

        return {"duality": plot_duality(self.optimum)}

    def _write_allocations(self, path: Path) -> None:
        """Write the powers, the objective and the bound of every channel to an HDF5 file."""
        from feduplink.storage.hdf5 import writing_hdf5

        arrays = {
            "power": (
                self.power.cpu().numpy(),
                "transmit powers of the best policy found, (N, L), W",
            ),
            "objective": (
                self.channel_objective(),
                f"sum over workers of weight times {self.optimum.problem.objective.name} at these "
                "powers, (N,)",
            ),
            "upper_bound": (
                self.optimum.certificate.upper.cpu().numpy(),
                "upper bound on the Lagrangian of every channel at the multipliers of "
                "metrics.json, (N,). Without constraints the Lagrangian is the objective. With "
                "constraints the mean of the bounds, plus 'offset', bounds the objective of every "
                "policy that meets the constraints; in a single channel a policy may exceed its "
                "bound.",
            ),
        }
        with writing_hdf5(path) as file:
            for name, (array, description) in arrays.items():
                file.create_dataset(name, data=array).attrs["description"] = description
            file["upper_bound"].attrs["offset"] = self.optimum.solution.constant
            file.attrs["scenario"] = self.scenario.to_yaml()

    def channel_objective(self) -> np.ndarray[Any, np.dtype[np.float64]]:
        """Objective of each channel at the best powers found.

        Returns:
            Σ_i ω_i f_i, (N,) float64.
        """
        from feduplink import link

        problem, power = self.optimum.problem, self.power
        sinr = link.sinr(self.optimum.csi.to(power), power)
        values = problem.objective_values(sinr, power)
        return (problem.utility.weights.to(values) * values).sum(-1).cpu().numpy()


@workflow
def find_optimum(
    scenario: Scenario,
    channels: ChannelsOption = None,
    *,
    channels_per_split: ChannelsPerSplit = CHANNELS_PER_SPLIT,
    gap: Annotated[
        float, Field(gt=0, le=1, description="Gap between bound and objective that ends the proof")
    ] = 1e-3,
    max_boxes: MaxBoxes = None,
    budget_s: BudgetS = None,
    confidence: Annotated[
        float | None,
        Field(
            gt=0,
            lt=1,
            description="Also compute a bound for the distribution of the channels, with this "
            "confidence, such as 0.95; up to another --max-boxes and --budget-s",
        ),
    ] = None,
    certificate: Annotated[
        Path | None,
        Field(description="Also write the proof with its channels to this file (HDF5)"),
        CommandLine(metavar="FILE"),
    ] = None,
    whole_file: Annotated[
        bool,
        Field(description="Use all recorded channels instead of the test channels, a third"),
    ] = False,
    seed: Seed = 0,
    device: Device = "cpu",
    **reading: Reading,
) -> OptimumResult:
    """Find the optimum on test or recorded channels, with a certified upper bound.

    The problem is to maximise g(E[f]) subject to E[c] ≥ c0 over powers in [0, Pmax], one per worker
    and channel, where expectations are means over the channels. The dual problem is solved and
    primal powers are recovered; branch and bound certifies the upper bound.

    Args:
        scenario: the cell, the radio and the problem.
        channels: recorded or drawn :class:`feduplink.Channels`, a file, or an array (N, L, L). The
            test split is used, of an array all channels. None: channels are drawn.
        channels_per_split: number of channels to draw for each split.
        gap: gap between upper bound and objective at which branch and bound stops.
        max_boxes: maximum number of boxes of the branch and bound; None: 2,000,000, or no limit
            with ``budget_s``.
        budget_s: time limit of the branch and bound, s; the bound then depends on the machine.
        confidence: confidence of an additional bound for the distribution of the channels; None:
            none.
        certificate: file for the proof of the bound (HDF5); None: none.
        whole_file: use all recorded channels instead of the test split.
        seed: seed of drawn channels.
        device: device of the search.
        reading: ``noise_power_w``, ``transpose`` and ``channel_axes`` of a file or an array, see
            :func:`feduplink.make_channels`.

    Returns:
        Powers in W, objective, upper bound and multipliers.

    Raises:
        InputError: if an argument is not accepted, or the problem has no bound.

    >>> import feduplink as fu
    >>> best = fu.find_optimum(fu.Scenario(workers=2), channels_per_split=5)
    >>> best.objective <= best.upper_bound
    True
    """
    import torch

    from feduplink import optimum as search
    from feduplink.channels.channel_set import channels_for
    from feduplink.optimum.proof_export import check_stateable
    from feduplink.problem import Problem

    if whole_file and channels is None:
        raise InputError("whole-file: accepted only with --channels FILE.")
    split = confidence is not None or not whole_file
    scenario, data = channels_for(
        scenario, channels, channels_per_split, seed=seed, split=split, **reading
    )
    csi = data.csi if whole_file else data.test
    if confidence is not None and len(data.test) < _MIN_BOUND_CHANNELS:
        raise InputError(
            f"confidence: {len(data.test)} test channels are too few for a bound on the "
            f"distribution; accepted: {_MIN_BOUND_CHANNELS} or more."
        )
    if certificate is not None:
        if certificate.is_dir():
            raise InputError(f"certificate: {certificate} is a directory; accepted: a file.")
        check_stateable(Problem.from_scenario(scenario), scenario)
    optimum = search.find_optimum(
        scenario,
        csi,
        max_boxes=max_boxes,
        budget_s=budget_s,
        gap=gap,
        device=device,
        record=True,
    )
    warn_unreachable(optimum.unreachable)
    policy = {"dual": dual_policy(optimum)}
    outcomes = judge_policies(policy, csi, scenario, seed=seed, recorded=data.recorded)
    bound = None
    if confidence is not None:
        # The bound holds only if the multipliers are independent of the test channels.
        bound = search.distribution_bound(
            scenario,
            data.test,
            multipliers=search.solve_dual(scenario, data.training).multipliers,
            confidence=confidence,
            max_boxes=max_boxes,
            budget_s=budget_s,
        )
    whole = [f"the optimum is that of all {len(csi)} channels"] if whole_file else []
    rows = torch.arange(len(data.csi)) if whole_file else data.rows["test"]
    result = OptimumResult(
        optimum.improved_by({name: outcome.power for name, outcome in outcomes.items()}),
        outcome=outcomes["dual"],
        distribution=bound,
        channels={**data.as_metrics(), "count": len(csi)},
        origin=data.headline(csi),
        notes=(*data.notes, *whole),
        rows=rows if data.recorded else None,
        seed=seed,
    )
    if certificate is not None:
        result.write_proof(certificate)
    return result


def dual_policy(optimum: Optimum) -> DualPolicy:
    """Policy ``dual`` at the multipliers of an optimum."""
    from feduplink.lagrangian import DualPoint
    from feduplink.policies import DualPolicy

    point = DualPoint(optimum.solution.primal_multipliers, optimum.problem.thresholds)
    return DualPolicy(optimum.scenario, point)


@dataclass(frozen=True)
class ProofCheck:
    """Result of :func:`check_proof`.

    Attributes:
        proof: statement and branching tree.
        failure: description of the first step that does not hold; None if the proof is valid.
        channels: number of channels.
        boxes: number of boxes in the branching tree.
        leaves: number of leaves of the branching tree.
        seconds: duration of the check, s.

    >>> import tempfile
    >>> from pathlib import Path
    >>> import feduplink as fu
    >>> best = fu.find_optimum(fu.Scenario(workers=2), channels_per_split=5)
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     checked = fu.check_proof(best.write_proof(Path(directory, "proof.h5")))
    >>> checked.valid, checked.channels
    (True, 5)
    """

    proof: Proof
    failure: str | None
    channels: int
    boxes: int
    leaves: int
    seconds: float

    @property
    def valid(self) -> bool:
        """Whether the statement is proved."""
        return self.failure is None

    def __str__(self) -> str:
        """Statement with sizes and bounds, or the step that fails."""
        if self.failure is not None:
            return f"{self.failure}."
        statement = self.proof.statement
        entries = {
            "channels": f"{self.channels} of {len(self.proof.floor)} workers",
            "boxes": f"{self.boxes}, {self.leaves} of them leaves",
            "objective, at least": f"{statement.objective:.6g}",
            "bound on every policy": f"{statement.upper_bound:.6g}",
            "seconds": f"{self.seconds:.1f}",
        }
        return TextTable.of_entries(_problem_line(self.proof), entries).plain()

    @property
    def conclusion(self) -> str:
        """Proved statement, in a sentence."""
        violation = self.proof.statement.violation
        approximately = f"violate no constraint by more than {violation:.2g} of its threshold"
        feasible = "satisfy the constraints" if violation == 0 else approximately
        return (
            f"proof holds: the powers in it {feasible} and attain the objective, and no policy "
            "that satisfies the constraints on these channels exceeds the bound"
        )


@workflow
def check_proof(
    proof: Annotated[
        str | Path,
        Field(description="Proof that find_optimum or 'feduplink optimum --certificate' wrote"),
        CommandLine(metavar="PROOF", positional=True, type=Path),
    ],
    *,
    channels: Annotated[
        str | Path | None,
        Field(
            description="Also check that the channels in the proof equal these recorded channels "
            "bit for bit; without it only their checksum is shown"
        ),
        CommandLine(metavar="FILE[:KEY]", type=str | None),
    ] = None,
    processes: Annotated[
        int,
        Field(ge=1, le=1024, description="Channels to check at the same time"),
        CommandLine(metavar="N"),
    ] = 2,
    **reading: Reading,
) -> ProofCheck:
    """Check a proof of optimality with code that is separate from the search.

    Args:
        proof: file that :meth:`OptimumResult.write_proof` or ``feduplink optimum --certificate``
            wrote.
        channels: recorded channels that must equal those in the proof; None: no comparison.
        processes: number of processes; channels are checked in parallel.
        reading: ``noise_power_w``, ``transpose`` and ``channel_axes`` of the recorded channels, see
            :func:`feduplink.make_channels`.

    Returns:
        Whether the proof is valid, and its statement.

    Raises:
        InputError: if a file cannot be read, or the recorded channels differ.

    >>> import tempfile
    >>> from pathlib import Path
    >>> import feduplink as fu
    >>> best = fu.find_optimum(fu.Scenario(workers=2), channels_per_split=5)
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     fu.check_proof(best.write_proof(Path(directory, "proof.h5"))).valid
    True
    """
    from feduplink.channels import read_channels
    from feduplink.proofs import read_proof
    from feduplink.proofs.format import check_recording

    checker = import_extra("feduplink.proofs.checker", "check")
    if channels is None and reading:
        raise InputError(f"{next(iter(reading))}: accepted only with --channels FILE.")
    content = read_proof(Path(proof))
    if channels is not None:
        csi = read_channels(channels, **reading).csi
        check_recording(content, csi.numpy(), str(channels))
    started = time.monotonic()
    failure = checker.find_error(content, processes=processes)
    seconds = time.monotonic() - started
    tree = content.tree
    leaves = int((~tree.split).sum())
    return ProofCheck(content, failure, len(content.upper), len(tree.node), leaves, seconds)


def _problem_line(proof: Proof) -> str:
    """Problem of a proof on one line."""
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
    """Smallest and largest value, or the value if all are equal."""
    low, high = float(values.min()), float(values.max())
    return f"{low:g}" if low == high else f"{low:g} to {high:g}"
