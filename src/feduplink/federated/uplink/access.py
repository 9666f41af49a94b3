"""Access to the uplink: simultaneous transmission under a policy, TDMA, OFDMA, ideal.

A scheme of your own derives from :class:`AccessScheme`; registered, as an entry point in the group
``feduplink.access_schemes``, or as ``package.module:Object``, it is a row of every comparison like
the shipped ones.
"""

from __future__ import annotations

import inspect
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor

from feduplink import link
from feduplink.channels import Channels
from feduplink.errors import InputError
from feduplink.federated.uplink.rounds import RoundCosts, Rounds, UplinkRecord, UplinkRules, Uploads
from feduplink.policies import Policy, make_policies
from feduplink.progress import track_each
from feduplink.registry import ACCESS_SCHEMES, POLICIES
from feduplink.scenario import Scenario
from feduplink.storage.tensorfile import checksum, object_identity


class AccessScheme(ABC):
    """Turns the channels of a run into uploads.

    Attributes:
        name: how tables, files and the command line call it.
        summary: what it does, in a few words, for readers of tables and pages.
        colour, marker: how matplotlib draws it in all figures; None takes what is free. A derived
            class does not inherit them.
    """

    name: str
    summary: str = ""
    colour: ClassVar[str | None] = None
    marker: ClassVar[str | None] = None

    @abstractmethod
    def uploads(self, rounds: Rounds, rules: UplinkRules) -> Uploads:
        """What is sent in all rounds, and how likely it arrives; absent workers do not send."""

    def identity(self) -> Any:
        """What a resumed federation must agree on, for JSON: name and settings."""
        return object_identity(self, ACCESS_SCHEMES)


class Ideal(AccessScheme):
    """Every upload arrives; time and energy are not defined."""

    name = "ideal"
    summary = "every upload arrives, at no cost"
    colour, marker = "#000000", "h"

    def uploads(self, rounds: Rounds, rules: UplinkRules) -> Uploads:
        """Success 1 for everyone present."""
        present = rounds.present
        undefined = torch.full((len(present),), torch.nan, dtype=torch.float64)
        return Uploads(
            success=present.double(),
            transmitting=present.clone(),
            airtime_s=undefined,
            energy_j=undefined.clone(),
            sent_bytes=(present * rules.bits).sum(-1) / 8,
        )


def check_kappa(seconds_per_joule: float) -> float:
    """κ itself, if it is one."""
    if not 0 <= seconds_per_joule < math.inf:
        raise InputError(
            f"kappa: {seconds_per_joule} s/J is not accepted; accepted: 0 or more, finite."
        )
    return seconds_per_joule


class OrthogonalAccess(AccessScheme):
    """Nobody disturbs anybody (:mod:`feduplink.link.uploads`); everyone sends.

    Args:
        seconds_per_joule: κ, how many seconds one joule is worth; 0 sends at Pmax.

    """

    #: How the band is shared, with the arguments of :func:`feduplink.link.tdma`.
    _share_band: ClassVar[Callable[..., link.Upload]]

    def __init__(self, seconds_per_joule: float = 0.0) -> None:
        self.seconds_per_joule = check_kappa(seconds_per_joule)

    def uploads(self, rounds: Rounds, rules: UplinkRules) -> Uploads:
        """Everyone at the power that minimises its time plus κ times its energy."""
        scenario = rules.scenario
        upload = self._share_band(
            rounds.csi.double(),
            rounds.present,
            rules.bits,
            scenario.bandwidth_hz,
            scenario.pmax_w,
            scenario.static_power,
            seconds_per_joule=self.seconds_per_joule,
            deadline_s=rules.deadline_s,
        )
        return Uploads.from_link(upload, rounds.present, rules)


class TDMA(OrthogonalAccess):
    """One worker after the other, each on the whole band."""

    name = "tdma"
    summary = "one worker after the other, each on the whole band"
    colour, marker = "#882255", "<"
    _share_band = staticmethod(link.tdma)


class OFDMA(OrthogonalAccess):
    """Everyone at once, each on an equal part of the band."""

    name = "ofdma"
    summary = "everyone at once, each on an equal part of the band"
    colour, marker = "#999933", ">"
    _share_band = staticmethod(link.ofdma)


class SimultaneousAccess(AccessScheme):
    """All senders at once on the whole band, at the powers of a policy.

    Each leaves the air with its last bit.
    """

    def __init__(self, policy: Policy) -> None:
        self.policy, self.name = policy, policy.name

    def uploads(self, rounds: Rounds, rules: UplinkRules) -> Uploads:
        """A policy for a fixed number of workers is refused where workers come and go."""
        if self.policy.fixed_workers and not rounds.present.all():
            raise InputError(
                f"present: {self.name} takes exactly {self.policy.fixed_workers} workers; accepted "
                "while workers come and go: policies for any number of them."
            )
        allocated = allocate_present(self.policy, rounds.observed, rounds.present)
        # A policy made for another scenario may know another Pmax; this one counts. An absent
        # worker has power 0, so it neither sends nor disturbs.
        power = torch.minimum(allocated, rules.scenario.pmax_w.to(allocated)).double()
        upload = link.simultaneous_upload(
            rounds.csi.double(), power, rules.bits, rules.scenario.bandwidth_hz, rules.deadline_s
        )
        return Uploads.from_link(upload, rounds.present, rules)

    def identity(self) -> Any:
        """The policy's name, its scenario and a checksum of its tensors."""
        return {
            "name": POLICIES.name_of(type(self.policy)),
            "scenario": self.policy.scenario.model_dump(mode="json"),
            "tensors": checksum(self.policy.tensors(), {}),
        }


#: What decides who sends at which power.
Sender = Policy | AccessScheme


def access_scheme(sender: Sender) -> AccessScheme:
    """The scheme itself; of a policy, simultaneous access at its powers."""
    return sender if isinstance(sender, AccessScheme) else SimultaneousAccess(sender)


def access_schemes_among(
    names: Sequence[str], **settings: Any
) -> tuple[dict[str, AccessScheme], list[str]]:
    """The access schemes among the names of a comparison, by name, and the names that are left.

    ``settings`` are those of :func:`find_access_scheme`. The names that are left stand for
    policies. A ``package.module:Object`` is a scheme if it is a class of schemes or a function,
    which no policy is; it goes by its own name.
    """
    registered = ACCESS_SCHEMES.names()
    chosen = [name for name in registered if name in names]
    chosen += [name for name in names if name not in registered and _is_path_of_scheme(name)]
    found: dict[str, AccessScheme] = {}
    for name in chosen:
        scheme = find_access_scheme(name, **settings)
        label = name if name in registered else scheme.name
        found[label if label not in found else name] = scheme
    return found, [name for name in names if name not in chosen]


def _is_path_of_scheme(name: str) -> bool:
    if ":" not in name or name in POLICIES.names() or Path(name).exists():
        return False
    try:
        found: Any = ACCESS_SCHEMES.find(name)
    except InputError:  # whoever looks for a policy of this name says what is wrong
        return False
    return issubclass(found, AccessScheme) if isinstance(found, type) else callable(found)


def find_access_scheme(name: str, **settings: Any) -> AccessScheme:
    """The scheme of a name: a registered one, an entry point's or ``package.module:Object``.

    Of the ``settings`` each gets those that it takes, ``seconds_per_joule`` κ, ``delivery`` d, the
    ``scenario`` and its ``channels``.
    """
    made_by: Any = ACCESS_SCHEMES.find(name)
    taken = inspect.signature(made_by).parameters
    scheme = made_by(**{key: value for key, value in settings.items() if key in taken})
    if not isinstance(scheme, AccessScheme):
        raise InputError(
            f"access scheme: {name} makes a {type(scheme).__name__}; accepted: an AccessScheme."
        )
    return scheme


def transmit(sender: Sender, rounds: Rounds, rules: UplinkRules) -> UplinkRecord:
    """Let ``sender`` upload in all rounds and see what arrives."""
    return UplinkRecord.draw(access_scheme(sender).uploads(rounds, rules), rounds.uniform)


def allocate_present(policy: Policy, csi: Tensor, present: Tensor) -> Tensor:
    """Powers in W, (N, L): the policy sees the workers that are there, as another, smaller L."""
    power = torch.zeros(present.shape, dtype=csi.dtype)
    for workers in torch.tensor(sorted(set(map(tuple, present.tolist())))):
        if not bool(workers.any()):
            continue
        rounds = (present == workers).all(-1).nonzero()[:, 0]
        columns = workers.nonzero()[:, 0]
        smaller = csi[rounds][:, columns][:, :, columns]
        power[rounds[:, None], columns] = policy.allocate(smaller).to(csi.dtype)
    return power


def find_senders(
    names: Sequence[str],
    scenario: Scenario,
    *,
    seed: int = 0,
    seconds_per_joule: float = 0.0,
    delivery: float | Sequence[float] = 1.0,
    recording: Channels | None = None,
) -> dict[str, Sender]:
    """Access schemes and policies by the names that a command line takes.

    Policies are tuned on the training channels of ``recording``, or else of the scenario in any
    cell; κ = ``seconds_per_joule`` and the ``delivery`` d go to the schemes that take them.
    """
    anywhere = any_cell(scenario)
    source = recording or Channels.from_scenario(anywhere, seed=seed)
    schemes, policies = access_schemes_among(
        names,
        seconds_per_joule=seconds_per_joule,
        delivery=delivery,
        scenario=anywhere,
        channels=source,
    )
    senders: dict[str, Sender] = {**schemes}
    if policies:
        senders.update(make_policies(policies, anywhere, channels=source, seed=seed))
    return senders


def any_cell(scenario: Scenario) -> Scenario:
    """What policies are made for: every run has a cell of its own, which nobody knows before."""
    return scenario.replace(geometry="redrawn", speed_mps=0.0, coherence_time_s=None)


def compare_rounds(
    senders: Mapping[str, Sender], rounds: Rounds, rules: UplinkRules
) -> dict[str, RoundCosts]:
    """What the rounds cost with each of the senders, by name."""
    return {
        name: RoundCosts.from_uploads(
            access_scheme(senders[name]).uploads(rounds, rules),
            getattr(senders[name], "seconds_per_joule", None),
        )
        for name in track_each("rounds", list(senders), "policies")
    }
