"""Registries of policies, measures, channel models, learning algorithms, tasks and aggregations.

A name refers to an object of this package, a registered object, an entry point of an installed
package, or ``package.module:Object``. Objects of this package are listed here as
``package.module:Object`` too and imported at their first use.

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
    """Entry points of the groups ``feduplink.*``; cached, as the search covers all packages."""
    found = entry_points()
    groups = (group for group in found.groups if group.startswith("feduplink."))
    return {group: tuple(found.select(group=group)) for group in groups}


def object_path(item: object) -> str:
    """Path ``package.module:Object`` of a class or function."""
    return f"{getattr(item, '__module__', '')}:{getattr(item, '__qualname__', '')}"


class _ClassName:
    """Descriptor that returns the name of the class."""

    def __get__(self, _instance: object, owner: type) -> str:
        return owner.__name__


def class_name() -> str:
    """Default value of a class attribute ``name``: the name of the class, also for subclasses.

    >>> class Goodput:
    ...     name = class_name()
    >>> Goodput.name
    'Goodput'
    """
    return cast("str", _ClassName())


class Registry(Generic[_T]):
    """Objects of one kind by name.

    Args:
        kind: word for the objects in error messages, such as ``policy``.
        group: entry-point group of installed packages, such as ``feduplink.policies``.
        shipped: paths ``package.module:Object`` of this package's objects by name, in the order in
            which they are listed.
        aliases: alternative names of shipped objects, each with the name it refers to.

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
        """Register an object under a name, in this process.

        Args:
            name: a name not yet in use.
            item: the object.

        Returns:
            The object.

        Raises:
            InputError: if the name refers to another object.
        """
        if self._registered.get(name) is item:
            return item
        if name in (*self.names(), *self.aliases):
            raise InputError(
                f"{self.kind}: the name {name!r} is in use; accepted: a name not yet in use."
            )
        self._registered[name] = item
        return item

    def unregister(self, name: str) -> None:
        """Remove a registered name; names of this and of installed packages remain."""
        self._registered.pop(name, None)

    def names(self) -> tuple[str, ...]:
        """All names without aliases: of this package, registered, of installed packages."""
        return tuple({**self._paths, **self._registered, **self._declared})

    @property
    def shipped(self) -> tuple[str, ...]:
        """Names of the objects of this package."""
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
        """Find an object.

        Args:
            name: name, alias or ``package.module:Object``.

        Returns:
            The object; its module is imported if necessary.

        Raises:
            InputError: if the name is unknown or the import fails.
        """
        if (item := self._known(self.aliases.get(name, name))) is not None:
            return item
        return self._imported(self.check(name), name)

    def find_in_file(self, name: str, file: object) -> _T:
        """Find an object named in a file, without importing modules that the file names.

        Args:
            name: a known name, or ``package.module:Object`` of a module already imported.
            file: the file, for error messages.

        Returns:
            The object.

        Raises:
            InputError: if the name is unknown and its module is not imported.
        """
        if (item := self._known(name)) is not None:
            return item
        module, _, path = name.partition(":")
        if path and module in sys.modules:
            return self._imported(name, f"{name} in {file}")
        raise InputError(
            f"{self.kind}: {file} refers to {name!r}, whose code is not imported; accepted after "
            f"importing its module (--import {module or 'MODULE'} on the command line)."
        )

    def name_of(self, item: _T) -> str:
        """Name under which :meth:`find` returns ``item``, or else ``package.module:Object``."""
        for name, known in self._registered.items():
            if known is item:
                return name
        path = object_path(item)
        declared = {entry.value: name for name, entry in self._declared.items()}
        shipped = {value: name for name, value in self._paths.items()}
        return shipped.get(path) or declared.get(path) or path

    def _known(self, name: str) -> _T | None:
        """The object of a known name, or None."""
        if name in self._registered:
            return self._registered[name]
        if name in self._paths:
            return self._imported(self._paths[name], name)
        if (entry := self._declared.get(name)) is not None:
            return self._imported(entry.value, f"{name} ({entry.value})")
        return None

    @functools.cached_property
    def _declared(self) -> dict[str, EntryPoint]:
        """Entry points of installed packages, without those that use a name of this package."""
        return {
            entry.name: entry
            for entry in sorted(_installed().get(self.group, ()), key=lambda entry: entry.name)
            if entry.name not in self._paths
        }

    def _imported(self, path: str, called: str) -> _T:
        """Import the object at ``package.module:Object``; ``called`` names it in errors."""
        module, _, names = path.partition(":")
        try:
            found: Any = importlib.import_module(module)
            for name in names.split("."):
                found = getattr(found, name)
        except InputError:
            raise  # Its message is specific, such as that an extra is not installed.
        except (ImportError, AttributeError, ValueError) as error:
            reason = " ".join(str(error).split()).removesuffix(".")
            raise InputError(
                f"{self.kind}: {called} cannot be imported: {reason}; accepted: "
                "package.module:Object."
            ) from error
        item: _T = found
        return item


#: Policies: subclasses of :class:`feduplink.policies.Policy`, or functions of CSI and scenario.
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

#: Trainable policies, the default policies of a comparison, and the further default policies of a
#: federation. The first two are class attributes too (``algorithm``, ``by_default``), so that user
#: classes can set them; these tuples are available without importing a class.
TRAINABLE = ("pdm", "pdg", "pdx", "learned-schedule")
COMPARED = ("rand", "orth", "max", "openloop")
SCHEDULED = ("ideal", "tdma", "ofdma", "fixed-power", "schedule", "learned-schedule")

#: Channel models: functions of a scenario that return a :class:`feduplink.channels.ChannelModel`.
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

#: Measures: subclasses of :class:`feduplink.link.SeparableMeasure` or
#: :class:`feduplink.link.Measure`.
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

#: Learning algorithms: subclasses of :class:`feduplink.training.LearningAlgorithm`, to which
#: ``Policy.algorithm`` refers.
ALGORITHMS: Registry[type[LearningAlgorithm[Any]]] = Registry(
    "algorithm",
    "feduplink.algorithms",
    {
        "primal-dual": "feduplink.training.primal_dual:PrimalDualLearning",
        "lagrangian": "feduplink.training.unrolled:LagrangianLearning",
        "schedules": "feduplink.training.phase_network:ScheduleLearning",
    },
)

#: Federated tasks, or functions that return one, see :func:`feduplink.federated.load_task`.
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

#: Aggregations: classes or functions without arguments that return a
#: :class:`feduplink.federated.Aggregation`.
AGGREGATIONS: Registry[Callable[[], Aggregation]] = Registry(
    "aggregation",
    "feduplink.aggregations",
    {
        "exact": "feduplink.federated.server:ExactAverage",
        "unbiased": "feduplink.federated.server:UnbiasedAverage",
        "published": "feduplink.federated.server:PublishedAverage",
    },
)
