"""Several policies side by side on the same channels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from feduplink.evaluation import allocate_seen
from feduplink.judgement import Judgement, judge
from feduplink.optimum import Optimum
from feduplink.policies import Policy
from feduplink.policies.store import made_for, made_for_sentence
from feduplink.problem import Problem
from feduplink.progress import track_each
from feduplink.reporting.comparison import comparison_table
from feduplink.scenario import Scenario
from feduplink.tables import TextTable


@dataclass(frozen=True, repr=False)
class Outcome:
    """What a policy did on the channels.

    Attributes:
        power: (N, L), W.
        judgement: how that is judged.
        made_for: fields in which the scenario it was made for is another one, with both values.
    """

    power: Tensor
    judgement: Judgement
    made_for: dict[str, tuple[Any, Any]] = field(default_factory=dict)

    def __repr__(self) -> str:
        """The judgement, and of how many powers."""
        channels, workers = self.power.shape
        return f"Outcome({channels} channels of {workers} workers, {self.judgement!r})"

    def as_metrics(self) -> dict[str, Any]:
        """The policy's entry in ``metrics.json``."""
        entry: dict[str, Any] = dict(self.judgement.as_metrics())
        return {**entry, "made_for": self.made_for} if self.made_for else entry


class Comparison(Mapping[str, Outcome]):
    """What policies did on the same channels, by name; printed or in a notebook it is a table."""

    def __init__(self, outcomes: Mapping[str, Outcome], scenario: Scenario) -> None:
        self._outcomes = dict(outcomes)
        self.scenario = scenario

    def __getitem__(self, name: str) -> Outcome:
        return self._outcomes[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._outcomes)

    def __len__(self) -> int:
        return len(self._outcomes)

    @property
    def judgements(self) -> dict[str, Judgement]:
        """How each policy is judged."""
        return {name: outcome.judgement for name, outcome in self.items()}

    @property
    def powers(self) -> dict[str, Tensor]:
        """What each policy sent, (N, L) W."""
        return {name: outcome.power for name, outcome in self.items()}

    @property
    def notes(self) -> list[str]:
        """A sentence on every policy that was made for another scenario."""
        return [
            made_for_sentence(name, outcome.made_for)
            for name, outcome in self.items()
            if outcome.made_for
        ]

    def table(self, optimum: Optimum | None = None, notes: Sequence[str] = ()) -> TextTable:
        """A row per policy, beside the ``optimum`` if given; ``notes`` stand below."""
        return comparison_table(self.judgements, self.scenario, optimum, [*notes, *self.notes])

    def __repr__(self) -> str:
        """The table."""
        return self.table().plain()

    def _repr_html_(self) -> str:
        return self.table().html()


def compare(
    policies: Mapping[str, Policy],
    csi: Tensor,
    scenario: Scenario,
    problem: Problem | None = None,
    *,
    seed: int = 0,
    recorded: bool = False,
    device: str | torch.device | None = None,
) -> Comparison:
    """Judge every policy on the channels (N, L, L); all see the same noisy CSI.

    By ``problem``, or by the one that the scenario describes. Where channels are ``recorded`` it
    does not matter how policies' scenarios would draw them. Powers are computed on ``device``, by
    default where the channels are.
    """
    outcomes = {}
    for name, policy in track_each("comparison", policies.items(), "policies"):
        power = allocate_seen(policy, csi, scenario, seed=seed, device=device)
        verdict = judge(power, csi, scenario, problem)
        outcomes[name] = Outcome(power, verdict, made_for(policy, scenario, recorded=recorded))
    return Comparison(outcomes, scenario)
