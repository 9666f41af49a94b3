"""Several policies side by side on the same channels."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from feduplink.errors import InputError
from feduplink.evaluation import allocate_seen
from feduplink.optimum import learn_dual_policy, learned_on_fresh_channels, shipped_pdx
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
    "pdx": lambda scenario, csi, seed, recorded: (
        shipped_pdx(scenario, csi, margin=0.0, seed=seed)
        if recorded
        else shipped_pdx(scenario, seed=seed)
    ),
}

#: Policies that have to be learned first.
LEARNED = tuple(name for name, kind in POLICIES.items() if issubclass(kind, NeuralPolicy))

_ACCEPTED = f"accepted: {', '.join((*UNTRAINED, *SOLVED))}, or the directory of a training run"


@dataclass(frozen=True)
class Outcome:
    """What a policy did on the channels: powers (N, L) in W, and how that is judged."""

    power: Tensor
    judgement: Judgement


def compare(
    policies: Mapping[str, Policy], csi: Tensor, scenario: Scenario, *, seed: int = 0
) -> dict[str, Outcome]:
    """Judge every policy on the channels (N, L, L); all see the same noisy CSI."""
    outcomes = {}
    for name, policy in policies.items():
        power = allocate_seen(policy, csi, scenario, seed=seed)
        outcomes[name] = Outcome(power, judge(power, csi, scenario))
    return outcomes


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
    scenario; in the latter case ``dual`` draws more channels from the same stream. A saved policy
    goes by its name; where that is taken, by name and path.
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
            policy = _saved(name, scenario)
            label = f"{policy.name}:{name}" if policy.name in taken else policy.name
            taken.add(label)
            found[label] = policy
    return found


def _saved(path: str, scenario: Scenario) -> Policy:
    if not Path(path).exists():
        raise InputError(_unknown(path))
    policy = load_policy(path)
    if policy.fixed_workers not in (None, scenario.workers):
        raise InputError(
            f"policies: the {policy.name} of {path} takes exactly {policy.fixed_workers} workers; "
            f"there are {scenario.workers}."
        )
    if policy.scenario.pmax_dbw != scenario.pmax_dbw:
        warnings.warn(
            f"the {policy.name} of {path} was made for {policy.scenario.pmax_dbw} dBW; its "
            f"powers are taken as they are, cut at {scenario.pmax_dbw} dBW",
            stacklevel=3,
        )
    return policy


def _unknown(name: str) -> str:
    if name in LEARNED:
        return (
            f"policies: {name} has to be learned first; train it with 'feduplink train --policy "
            f"{name} --out DIR' and give DIR instead of {name}."
        )
    return f"policies: {name!r} is neither a policy nor a saved one; {_ACCEPTED}."
