"""Made-up results with obvious verdicts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from PIL import Image

from feduplink.experiments import Experiment, ExperimentResult
from feduplink.experiments.compared import PolicyOutcome
from feduplink.experiments.federated_tasks import FederatedResult
from feduplink.experiments.parameter_sweeps import SweepResult
from feduplink.federated import FederatedHistory, RunHistory
from feduplink.storage.run_directory import Claim

HOLDS, IN_PART, FAILS, OPEN = "holds", "holds in part", "does not hold", "undecided"

#: (objective, weighted PER) at every value of the parameter.
Pairs = Sequence[tuple[float, float | None]]
#: Largest relative shortfall by feasibility.
_SHORTFALLS = {True: -0.1, False: 0.25, None: 0.0}


def verdicts(claims: Sequence[Claim]) -> list[str]:
    return [claim.verdict for claim in claims]


def outcome(
    objective: float, per: float | None = 0.1, *, feasible: bool | None = True
) -> PolicyOutcome:
    """A feasible policy needs no repair."""
    return PolicyOutcome(
        objective=objective,
        weighted_per=per,
        participation=0.5,
        feasible=feasible,
        shortfall=_SHORTFALLS[feasible],
        shortfall_error=0.05,
        repaired_objective=objective if feasible else objective / 2,
    )


def sweep(**policies: Pairs) -> SweepResult:
    """Return a sweep of feasible policies; two equal seeds make every difference significant.

    ``rand_unselected`` stands for ``rand:unselected``.
    """
    count = max(map(len, policies.values()))
    return SweepResult(
        parameter="x",
        values=[float(index + 1) for index in range(count)],
        policies={
            name.replace("_", ":"): [[outcome(objective, per)] * 2 for objective, per in pairs]
            for name, pairs in policies.items()
        },
    )


def history(
    errors: Mapping[str, float | Sequence[float]],
    costs: Mapping[str, tuple[float, float]] | None = None,
    task: str = "digits",
    rounds: int = 3,
) -> FederatedHistory:
    """Return two equal runs with one error for all rounds or one for each.

    ``costs`` are the seconds and joules of a round.
    """
    runs = {}
    for name, error in errors.items():
        curve = tuple(error) if isinstance(error, Sequence) else (error,) * rounds
        seconds, joules = costs[name] if costs and name in costs else (None, None)
        values = (2, 3, seconds, joules, 9)
        one = RunHistory(curve, *((value,) * len(curve) for value in values))
        runs[name] = (one, one)
    return FederatedHistory(task, "error rate", runs)


def federated(
    task: str = "digits", rounds: int = 3, **errors: Mapping[str, float | Sequence[float]]
) -> FederatedResult:
    """Return comparisons by their errors; ``exact_average`` stands for ``exact average``."""
    return FederatedResult(
        comparisons={
            label.replace("_", " "): history(final, task=task, rounds=rounds)
            for label, final in errors.items()
        }
    )


def assert_drawn(
    experiment: Experiment[Any], result: ExperimentResult, directory: Path, caption: str = "Caption"
) -> None:
    """Save the experiment and assert that its figure has its caption and colours."""
    experiment.save(result, directory, caption)
    with Image.open(directory / f"{experiment.name}.png") as image:
        assert image.info["Title"] == caption
        colours = image.convert("RGB").getcolors(maxcolors=1 << 24) or []
    # More than paper, ink and the shades between them.
    assert any(max(colour) - min(colour) > 60 for _, colour in colours if isinstance(colour, tuple))
    assert f"<title>{caption}</title>" in (directory / f"{experiment.name}.svg").read_text()
