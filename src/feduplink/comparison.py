"""Several policies side by side on the same channels."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor

from feduplink.comparison_table import comparison_table
from feduplink.errors import InputError
from feduplink.evaluation import allocate_seen
from feduplink.made_for import made_for, made_for_sentence
from feduplink.observing import track_each
from feduplink.optimum import (
    Optimum,
    learn_dual_policy,
    learned_on_fresh_channels,
    shipped_pdx,
)
from feduplink.policies import (
    POLICIES,
    FullPower,
    NeuralPolicy,
    OpenLoop,
    Orthogonal,
    Policy,
    RandomPower,
    load_policy,
)
from feduplink.problem import Judgement, judge
from feduplink.scenario import Scenario
from feduplink.text_table import TextTable

#: Policies that exist without training: name -> (scenario, tuning channels, seed) -> policy.
UNTRAINED: dict[str, Callable[[Scenario, Tensor, int], Policy]] = {
    "rand": lambda scenario, _csi, seed: RandomPower(scenario, seed=seed),
    "rand:unselected": lambda scenario, _csi, seed: RandomPower(
        scenario, seed=seed, selection=False
    ),
    "orth": lambda scenario, _csi, _seed: Orthogonal(scenario),
    "orth:unselected": lambda scenario, _csi, _seed: Orthogonal(scenario, selection=False),
    "max": lambda scenario, _csi, _seed: FullPower(scenario),
    "openloop": lambda scenario, csi, seed: OpenLoop.tuned(scenario, csi, seed=seed),
}

#: Those that a comparison shows unless others are asked for.
DEFAULT_POLICIES = ("rand", "orth", "max", "openloop")

#: Policies that exist without training but take a minute to find: name -> (scenario, tuning
#: channels, seed, whether these channels are recorded) -> policy. From recorded channels, all
#: that is known is these; otherwise they draw as many as they need.
SOLVED: dict[str, Callable[[Scenario, Tensor, int, bool], Policy]] = {
    "dual": lambda scenario, csi, seed, recorded: (
        learn_dual_policy(scenario, csi, margin=0.0)
        if recorded
        else learned_on_fresh_channels(scenario, seed)
    ),
    "pdx": lambda scenario, csi, _seed, recorded: (
        shipped_pdx(scenario, csi, margin=0.0) if recorded else shipped_pdx(scenario)
    ),
}

#: Policies that have to be learned first.
LEARNED = tuple(name for name, kind in POLICIES.items() if issubclass(kind, NeuralPolicy))

_ACCEPTED = f"accepted: {', '.join((*UNTRAINED, *SOLVED))}, or the directory of a training run"


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
    *,
    seed: int = 0,
    recorded: bool = False,
) -> Comparison:
    """Judge every policy on the channels (N, L, L); all see the same noisy CSI.

    Where channels are ``recorded`` it does not matter how policies' scenarios would draw them.
    """
    outcomes = {}
    for name, policy in track_each("comparison", policies.items(), "policies"):
        power = allocate_seen(policy, csi, scenario, seed=seed)
        verdict = judge(power, csi, scenario)
        outcomes[name] = Outcome(power, verdict, made_for(policy, scenario, recorded=recorded))
    return Comparison(outcomes, scenario)


def find_policies(
    names: Sequence[str],
    scenario: Scenario,
    tuning_csi: Tensor,
    *,
    seed: int = 0,
    recorded: bool = False,
) -> dict[str, Policy]:
    """Policies by name, or by the directory or file they were saved to.

    What needs tuning is tuned on ``tuning_csi``, which is ``recorded`` or a draw from the
    scenario; in the latter case ``dual`` draws more channels from the same stream, and ``pdx``
    channels of its own that do not depend on the seed. A saved policy goes by its name; where
    that is taken, by name and path. One that was made for another scenario is warned of.
    """
    if not names:
        raise InputError(f"policies: none given; {_ACCEPTED}.")
    found: dict[str, Policy] = {}
    taken = {name for name in names if name in UNTRAINED or name in SOLVED}
    for name in dict.fromkeys(names):
        if name in UNTRAINED:
            found[name] = UNTRAINED[name](scenario, tuning_csi, seed)
        elif name in SOLVED:
            found[name] = SOLVED[name](scenario, tuning_csi, seed, recorded)
        else:
            policy = _saved(name, scenario, recorded=recorded)
            label = f"{policy.name}:{name}" if policy.name in taken else policy.name
            taken.add(label)
            found[label] = policy
    return found


def _saved(path: str, scenario: Scenario, *, recorded: bool) -> Policy:
    if not Path(path).exists():
        raise InputError(_unknown(path))
    policy = load_policy(path)
    if policy.fixed_workers not in (None, scenario.workers):
        raise InputError(
            f"policies: the {policy.name} of {path} takes exactly {policy.fixed_workers} workers; "
            f"there are {scenario.workers}."
        )
    if differences := made_for(policy, scenario, recorded=recorded):
        warnings.warn(made_for_sentence(f"{policy.name} of {path}", differences), stacklevel=3)
    return policy


def _unknown(name: str) -> str:
    if name in LEARNED:
        return (
            f"policies: {name} has to be learned first; train it with 'feduplink train --policy "
            f"{name} --out DIR' and give DIR instead of {name}."
        )
    return f"policies: {name!r} is neither a policy nor a saved one; {_ACCEPTED}."
