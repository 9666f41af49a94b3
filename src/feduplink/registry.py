"""Where policies, measures, channel models, tasks, aggregations and the like are found by name.

A name is one that ships, one that was registered, one that an installed package declares as an
entry point, or ``package.module:Object``. Shipped ones come through the same door: they are named
here as ``package.module:Object`` and imported when they are asked for, so that nobody else needs a
list of them.

>>> POLICIES.find("max").__name__
'FullPower'
>>> POLICIES.find("fractions:Fraction").__name__
'Fraction'
>>> POLICIES.find("mox")
Traceback (most recent call last):
...
feduplink.errors.InputError: policy: 'mox' is unknown, did you mean max? accepted: rand, ...
"""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Callable, Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from feduplink.errors import InputError, unknown_name

if TYPE_CHECKING:
    from feduplink.channels.models import ChannelModel
    from feduplink.federated.server import Aggregation
    from feduplink.federated.tasks.task import Task
    from feduplink.link.measures import AnyMeasure
    from feduplink.scenario import Scenario
    from feduplink.training.trainer import LearningAlgorithm

_T = TypeVar("_T")


@functools.cache
def _installed() -> dict[str, tuple[EntryPoint, ...]]:
    """Entry points of our groups; all at once, since every installed package is looked at."""
    found = entry_points()
    ours = (group for group in found.groups if group.startswith("feduplink."))
    return {group: tuple(found.select(group=group)) for group in ours}


def object_path(item: object) -> str:
    """``package.module:Object`` of a class or function."""
    return f"{getattr(item, '__module__', '')}:{getattr(item, '__qualname__', '')}"


class _ClassName:
    """An attribute of a class and its objects with the name of the class."""

    def __get__(self, _instance: object, owner: type) -> str:
        return owner.__name__


def class_name() -> str:
    """Default of the attribute ``name`` of a class: the name of the class itself.

    >>> class Goodput:
    ...     name = class_name()
    >>> Goodput.name
    'Goodput'
    """
    return cast("str", _ClassName())


class Registry(Generic[_T]):
    """The things of one kind, by name.

    Args:
        kind: what they are called in errors, ``policy``.
        group: entry points of installed packages that are taken, ``feduplink.policies``.
        shipped: name -> ``package.module:Object``, in the order in which they are listed.
        aliases: further names of shipped ones, each with the name that it stands for.

    """

    def __init__(
        self,
        kind: str,
        group: str,
        shipped: Mapping[str, str],
        aliases: Mapping[str, str] | None = None,
    ) -> None:
        self.kind, self.group, self.aliases = kind, group, dict(aliases or {})
        self._paths = dict(shipped)
        self._registered: dict[str, _T] = {}

    def register(self, name: str, item: _T) -> _T:
        """Make ``item`` known as ``name`` in this process; a taken name is refused."""
        if self._registered.get(name) is item:
            return item
        if name in (*self.names(), *self.aliases):
            raise InputError(f"{self.kind}: the name {name!r} is taken; accepted: another one.")
        self._registered[name] = item
        return item

    def unregister(self, name: str) -> None:
        """Forget a registered name, so that another item may take it; others are left alone."""
        self._registered.pop(name, None)

    def names(self) -> tuple[str, ...]:
        """All names: shipped, registered, then those of installed packages."""
        return tuple({**self._paths, **self._registered, **self._declared})

    @property
    def shipped(self) -> tuple[str, ...]:
        """Names of what comes with this package."""
        return tuple(self._paths)

    def check(self, name: str, field: str = "") -> str:
        """The name itself, or the one that an alias stands for; an unknown one is refused.

        ``package.module:Object`` is not yet imported. ``field`` is what the name was given for, if
        that is not called as the kind.
        """
        name = self.aliases.get(name, name)
        if name not in self._paths and ":" not in name and name not in self.names():
            known = (*self.names(), *self.aliases)
            raise unknown_name(field or self.kind, name, known, "or package.module:Object")
        return name

    def find(self, name: str) -> _T:
        """The item of a name, or of ``package.module:Object``."""
        if (item := self._known(self.aliases.get(name, name))) is not None:
            return item
        return self._imported(self.check(name), name)

    def find_in_file(self, name: str, file: object) -> _T:
        """The item that ``file`` names; nothing is imported because a file says so.

        Only names that are known without it, and objects of modules that are imported already.
        """
        if (item := self._known(name)) is not None:
            return item
        module, _, path = name.partition(":")
        if path and module in sys.modules:
            return self._imported(name, f"{file} holds {name}")
        raise InputError(
            f"{self.kind}: {file} holds {name!r}, whose code is not here; accepted after "
            f"importing its module (--import {module or 'MODULE'} on the command line)."
        )

    def name_of(self, item: _T) -> str:
        """The name that finds ``item``: a known one, else ``package.module:Object``."""
        for name, known in self._registered.items():
            if known is item:
                return name
        path = object_path(item)
        declared = {entry.value: name for name, entry in self._declared.items()}
        shipped = {value: name for name, value in self._paths.items()}
        return shipped.get(path) or declared.get(path) or path

    def _known(self, name: str) -> _T | None:
        if name in self._registered:
            return self._registered[name]
        if name in self._paths:
            return self._imported(self._paths[name], name)
        if (entry := self._declared.get(name)) is not None:
            return self._imported(entry.value, f"{name} ({entry.value})")
        return None

    @functools.cached_property
    def _declared(self) -> dict[str, EntryPoint]:
        """Entry points of installed packages; one that takes a name of ours is left out."""
        return {
            entry.name: entry
            for entry in sorted(_installed().get(self.group, ()), key=lambda entry: entry.name)
            if entry.name not in self._paths
        }

    def _imported(self, path: str, called: str) -> _T:
        """The object at ``package.module:Object``; ``called`` is its name in errors."""
        module, _, names = path.partition(":")
        try:
            found: Any = importlib.import_module(module)
            for name in names.split("."):
                found = getattr(found, name)
        except InputError:
            raise  # It says what is missing, as an extra that is not installed.
        except (ImportError, AttributeError, ValueError) as error:
            reason = " ".join(str(error).split()).removesuffix(".")
            raise InputError(
                f"{self.kind}: {called} cannot be imported: {reason}; accepted: "
                "package.module:Object."
            ) from error
        item: _T = found
        return item


#: Classes of policies, :class:`feduplink.policies.Policy`, and functions of CSI and scenario.
POLICIES: Registry[Any] = Registry(
    "policy",
    "feduplink.policies",
    {
        "rand": "feduplink.policies.baselines:RandomPower",
        "rand:unselected": "feduplink.policies.baselines:UnselectedRandomPower",
        "orth": "feduplink.policies.baselines:Orthogonal",
        "orth:unselected": "feduplink.policies.baselines:UnselectedOrthogonal",
        "max": "feduplink.policies.baselines:FullPower",
        "openloop": "feduplink.policies.open_loop:OpenLoop",
        "pdm": "feduplink.policies.paper:PerceptronPolicy",
        "pdg": "feduplink.policies.paper:GraphPolicy",
        "dual": "feduplink.policies.dual:DualPolicy",
        "pdx": "feduplink.policies.pdx:UnrolledPolicy",
        "ideal": "feduplink.policies.baselines:Ideal",
        "tdma": "feduplink.policies.scheduled:TDMA",
        "ofdma": "feduplink.policies.scheduled:OFDMA",
        "fixed-power": "feduplink.policies.scheduled:FixedPower",
        "schedule": "feduplink.policies.scheduled:ComputedSchedule",
        "learned-schedule": "feduplink.policies.scheduled:LearnedSchedule",
    },
    {
        "full-power": "max",
        "random": "rand",
        "random:unselected": "rand:unselected",
        "orthogonal": "orth",
        "orthogonal:unselected": "orth:unselected",
        "open-loop": "openloop",
    },
)

#: Policies that are trained, those that are compared where none are named, and those that
#: federations compare in addition. The first two are attributes of the classes too, so that classes
#: of users can have them; here they are known before any class is imported.
TRAINABLE = ("pdm", "pdg", "pdx", "learned-schedule")
COMPARED = ("rand", "orth", "max", "openloop")
SCHEDULED = ("ideal", "tdma", "ofdma", "fixed-power", "schedule", "learned-schedule")

#: What builds a channel model for a scenario, :class:`feduplink.channels.ChannelModel`.
CHANNEL_MODELS: Registry[Callable[[Scenario], ChannelModel]] = Registry(
    "channel_model",
    "feduplink.channel_models",
    {
        "wbs": "feduplink.channels.models:WidebandSpatial",
        "hata-urban": "feduplink.channels.models:HataUrban",
        "hata-suburban": "feduplink.channels.models:HataSuburban",
        "hata-urban-shadowed": "feduplink.channels.models:HataUrbanShadowed",
        "hata-suburban-shadowed": "feduplink.channels.models:HataSuburbanShadowed",
        "sionna-umi": "feduplink.channels.sionna:UrbanMicrocell",
        "sionna-umi-mmse": "feduplink.channels.sionna:UrbanMicrocellMmse",
        "sionna-uma": "feduplink.channels.sionna:UrbanMacrocell",
        "sionna-uma-mmse": "feduplink.channels.sionna:UrbanMacrocellMmse",
        "sionna-inf": "feduplink.channels.sionna:IndoorFactory",
        "sionna-inf-mmse": "feduplink.channels.sionna:IndoorFactoryMmse",
    },
)

#: Classes of measures, :class:`feduplink.link.SeparableMeasure` or :class:`feduplink.link.Measure`.
MEASURES: Registry[type[AnyMeasure]] = Registry(
    "measure",
    "feduplink.measures",
    {
        "psr": "feduplink.link.measures:PacketSuccess",
        "rate": "feduplink.link.measures:Rate",
        "energy_efficiency": "feduplink.link.measures:EnergyEfficiency",
        "tb-success": "feduplink.link.bler:TransportBlockSuccess",
    },
)

#: Classes of learning algorithms, :class:`feduplink.training.LearningAlgorithm`, which the
#: ``algorithm`` of a policy class names.
ALGORITHMS: Registry[type[LearningAlgorithm[Any]]] = Registry(
    "algorithm",
    "feduplink.algorithms",
    {
        "primal-dual": "feduplink.training.primal_dual:PrimalDualLearning",
        "lagrangian": "feduplink.training.unrolled:LagrangianLearning",
        "schedules": "feduplink.training.phase_network:ScheduleLearning",
    },
)

#: Federated tasks, or functions that make one: see :func:`feduplink.federated.load_task`.
TASKS: Registry[Task | Callable[..., Task]] = Registry(
    "task",
    "feduplink.tasks",
    {
        "digits": "feduplink.federated.tasks.images:digits",
        "mnist": "feduplink.federated.tasks.images:mnist",
        "airquality": "feduplink.federated.tasks.airquality:airquality",
        "imdb": "feduplink.federated.tasks.reviews:imdb",
    },
)

#: Classes or functions without arguments that make a :class:`feduplink.federated.Aggregation`.
AGGREGATIONS: Registry[Callable[[], Aggregation]] = Registry(
    "aggregation",
    "feduplink.aggregations",
    {
        "exact": "feduplink.federated.server:ExactAverage",
        "unbiased": "feduplink.federated.server:UnbiasedAverage",
        "published": "feduplink.federated.server:PublishedAverage",
    },
)
