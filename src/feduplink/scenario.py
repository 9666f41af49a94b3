"""Validated description of a system: the cell, the radio and the optimisation problem.

>>> Scenario(workers=4, pmax_dbw=-30).pmax_w
0.001
>>> Scenario(rate_min=-1)
Traceback (most recent call last):
...
feduplink.errors.InputError: rate_min: Input should be greater than or equal to 0 (got -1).
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from functools import cached_property
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, NamedTuple, Self, TypeAlias

import yaml
from pydantic import AfterValidator, Field, field_validator, model_validator

from feduplink.errors import InputError, unknown_name
from feduplink.registry import CHANNEL_MODELS, MEASURES
from feduplink.storage.files import read_limited, write_text
from feduplink.units import parse_power_dbw
from feduplink.validation import ValidatedModel, parse_mapping

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor

    Numbers: TypeAlias = float | Sequence[float] | Tensor


class ScenarioPart(ValidatedModel):
    """Base class of the groups of fields of a :class:`Scenario`."""

    #: Fields that take one value, or one per worker.
    per_worker: ClassVar[tuple[str, ...]] = ()

    workers: int = Field(8, ge=1, le=1024, description="number of workers L")

    @model_validator(mode="after")
    def _check_lengths(self) -> Self:
        for part in type(self).__mro__:
            for name in vars(part).get("per_worker", ()):
                value = getattr(self, name)
                if isinstance(value, tuple) and len(value) != self.workers:
                    raise ValueError(
                        f"{name} has {len(value)} entries; accepted: one value, or one for each "
                        f"of the {self.workers} workers"
                    )
        return self

    def listed_per_worker(self, *fields: str) -> int | None:
        """Number of workers that per-worker values are given for.

        Args:
            fields: names of fields.

        Returns:
            The number of workers L if any of the fields lists one value per worker, else None.
        """
        listed = any(isinstance(getattr(self, field), tuple) for field in fields)
        return self.workers if listed else None


def float64(values: Numbers) -> Tensor:
    """Convert numbers to a float64 tensor."""
    # Imported here, because PyTorch takes seconds to import and the command line needs this module
    # for its options only.
    import torch

    return torch.as_tensor(values, dtype=torch.float64)


_PATTERN = re.compile(r"\s*(?P<measure>[^<>=\s]+)\s*(?P<sense>[<>]=)\s*(?P<limits>.+)")


class ConstraintText(NamedTuple):
    """Parsed text of a constraint.

    Attributes:
        measure: registered name or ``package.module:Class`` of the measure.
        at_most: whether the limit is an upper limit.
        limits: one limit, or one per worker, in the unit of the measure.

    """

    measure: str
    at_most: bool
    limits: tuple[float, ...]

    @classmethod
    def parse(cls, text: str, workers: int) -> ConstraintText:
        """Parse ``NAME >= LIMIT`` or ``NAME <= LIMIT``.

        Args:
            text: the constraint, with one limit, or one per worker separated by spaces.
            workers: number of workers L.

        Returns:
            Measure, sense and limits.

        Raises:
            InputError: if the text cannot be parsed.

        >>> ConstraintText.parse("rate >= 0.7", workers=8)
        ConstraintText(measure='rate', at_most=False, limits=(0.7,))
        """
        found = _PATTERN.fullmatch(text)
        try:
            limits = tuple(float(word) for word in found["limits"].split()) if found else ()
        except ValueError:
            limits = ()
        if found is None or len(limits) not in (1, workers) or not all(map(math.isfinite, limits)):
            raise InputError(
                f"constraints: {text!r} is not accepted; accepted: NAME >= LIMIT or NAME <= LIMIT, "
                f"with one limit or {workers}, one per worker, separated by spaces."
            )
        return cls(found["measure"], found["sense"] == "<=", limits)


#: Registered name or ``package.module:Object``, stored as given.
ChannelModelName = Annotated[str, AfterValidator(CHANNEL_MODELS.check), CHANNEL_MODELS]


class Cell(ScenarioPart):
    """Square cell with base stations and workers, and the channel model."""

    antennas: int = Field(10, ge=1, le=1024, description="antennas n_R of each base station")
    base_stations: int = Field(1, ge=1, le=64, description="base stations in the cell")
    channel_model: ChannelModelName = Field("wbs", description="channel model")
    cell_side_m: float = Field(1000.0, gt=0, le=1e5, description="side of the square cell, m")
    geometry: Literal["redrawn", "kept"] = Field(
        "redrawn", description="worker positions: new in every realisation, or kept"
    )
    speed_mps: float = Field(0.0, ge=0, le=300, description="worker speed when kept, m/s")
    round_interval_s: float = Field(1.0, gt=0, le=1e6, description="time between rounds, s")
    coherence_time_s: float | None = Field(
        None,
        gt=0,
        le=1e9,
        description="fading coherence time, s; none: from the speed, i.i.d. when that is 0",
    )
    carrier_hz: float = Field(1.9e9, ge=1e8, le=1e11, description="carrier frequency, Hz")
    interference: float = Field(
        1.0, gt=0, le=1e6, description="factor on the off-diagonal of the CSI"
    )
    csi_noise: float = Field(
        0.0, ge=0, le=1e30, description="variance of the Gaussian noise on the CSI a policy sees"
    )

    @model_validator(mode="after")
    def _check_motion(self) -> Self:
        if self.geometry == "redrawn" and (self.speed_mps > 0 or self.coherence_time_s):
            raise ValueError(
                "speed_mps and coherence_time_s apply to workers that keep their positions; "
                "accepted only with geometry: kept"
            )
        return self


UtilityName = Literal["weighted-sum", "proportional-fairness"]

# The limits are far above realistic values (40 nats/s/Hz is an SINR of 170 dB), and low enough to
# detect a threshold in the wrong unit.
_Rate = Annotated[float, Field(ge=0, le=40)]
_EnergyEfficiency = Annotated[float, Field(ge=0, le=1e6)]
_Weight = Annotated[float, Field(gt=0, le=1e9)]


class Goal(ScenarioPart):
    """Objective, weights and constraints, from which :class:`feduplink.Problem` is built."""

    per_worker: ClassVar[tuple[str, ...]] = ("rate_min", "ee_min", "weights")

    objective: str = Field(
        "psr", description="measure in the objective; a name or package.module:Class"
    )
    utility: UtilityName = Field("weighted-sum", description="utility g over the workers")
    weights: Literal["data", "uniform", "ones"] | tuple[_Weight, ...] = Field(
        "data", description="worker weights: data (k_i/K), uniform (1/L), ones, or a list"
    )
    rate_min: _Rate | tuple[_Rate, ...] = Field(
        0.70, description="threshold r0 on E[R|p>0], nats/s/Hz; one value or one per worker"
    )
    ee_min: _EnergyEfficiency | tuple[_EnergyEfficiency, ...] = Field(
        55.0, description="threshold e0 on E[EE|p>0], nats/s/Hz/W; one value or one per worker"
    )
    constraints: tuple[str, ...] = Field(
        (),
        description="further constraints, each NAME >= LIMIT or NAME <= LIMIT with the name of a "
        "measure or package.module:Class, and one limit or one per worker",
    )

    @model_validator(mode="after")
    def _check_measures(self) -> Self:
        objective, *constrained = self.measures
        MEASURES.check(objective, "objective")
        for name in constrained:
            MEASURES.check(name, "constraints")
        return self

    @property
    def measures(self) -> tuple[str, ...]:
        """Names of the measures in the objective and in further constraints."""
        further = (ConstraintText.parse(text, self.workers) for text in self.constraints)
        return (self.objective, *(constraint.measure for constraint in further))

    @cached_property
    def worker_weights(self) -> Tensor:
        """Worker weights ω, (L,) float64; ``data`` and ``uniform`` sum to one."""
        if isinstance(self.weights, tuple):
            return float64(self.weights)
        if self.weights == "ones":
            return float64([1.0] * self.workers)
        if self.weights == "uniform":
            return float64([1 / self.workers] * self.workers)
        sizes = float64(data_sizes(self.workers).tolist())
        return sizes / sizes.sum()

    @cached_property
    def rate_thresholds(self) -> Tensor:
        """Rate thresholds r0, (L,) float64, nats/s/Hz."""
        return float64(self.rate_min).expand(self.workers)

    @cached_property
    def ee_thresholds(self) -> Tensor:
        """Energy-efficiency thresholds e0, (L,) float64, nats/s/Hz/W."""
        return float64(self.ee_min).expand(self.workers)


def data_sizes(workers: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Relative data sizes k_i of the paper, (L,) integers drawn uniformly from [100, 1000)."""
    import numpy as np  # imported here for the same reason as PyTorch in float64

    return np.random.RandomState(42).randint(100, 1000, workers).astype(np.int64)


#: Number of weights of the paper's network for digits, the model uploaded by default.
MODEL_WEIGHTS = 39_760

#: Length of the checksum at the end of every upload, bits.
CHECKSUM_BITS = 32

# The smallest Pmax is ten times the power below which a worker is silent, 1e-10 W.
_PowerDbw = Annotated[float, Field(ge=-90, le=60)]
_Watts = Annotated[float, Field(gt=0, le=1e3)]
_ComputeEnergy = Annotated[float, Field(ge=0, le=1)]
_Bits = Annotated[float, Field(gt=0, le=1024)]


def _in_dbw(given: Any) -> Any:
    """Parse a text as a power in dBW; other values are returned unchanged, to be validated."""
    return parse_power_dbw(given, "pmax_dbw") if isinstance(given, str) else given


class Radio(ScenarioPart):
    """Transmit powers, bandwidth, noise, packet errors and energy consumption.

    The fields are in dBW and dBm/Hz; the properties convert to watts, which all computations use.
    """

    per_worker: ClassVar[tuple[str, ...]] = (
        "pmax_dbw",
        "static_power_w",
        "compute_energy_j_per_bit",
        "bits_per_weight",
    )

    pmax_dbw: _PowerDbw | tuple[_PowerDbw, ...] = Field(
        -20.0,
        description="largest transmit power, dBW, or with its unit: 10dBm, 10mW; one value or one "
        "per worker",
    )
    bandwidth_hz: float = Field(180e3, gt=0, le=1e12, description="bandwidth, Hz")
    noise_dbm_per_hz: float = Field(-174.0, ge=-250, le=0, description="noise density, dBm/Hz")
    noise_figure_db: float = Field(3.0, ge=0, le=60, description="receiver noise figure, dB")
    waterfall: float = Field(0.023, gt=0, le=1e3, description="waterfall threshold m of the PER")
    static_power_w: _Watts | tuple[_Watts, ...] = Field(
        0.01, description="static power P_c, W; one value or one per worker"
    )
    amplifier_inefficiency: float = Field(
        1.0, gt=0, le=1e3, description="amplifier inefficiency mu"
    )
    compute_energy_j_per_bit: _ComputeEnergy | tuple[_ComputeEnergy, ...] = Field(
        0.0,
        description="computation energy c_comp per model bit, J; one value or one per worker",
    )
    bits_per_weight: _Bits | tuple[_Bits, ...] = Field(
        32.0, description="bits per weight of an uploaded model; one value or one per worker"
    )

    @field_validator("pmax_dbw", mode="before")
    @classmethod
    def _powers_with_units(cls, given: Any) -> Any:
        """Convert powers given as text with a unit, such as ``10 dBm`` or ``10mW``, to dBW."""
        return tuple(map(_in_dbw, given)) if isinstance(given, list | tuple) else _in_dbw(given)

    @property
    def pmax_w(self) -> float | Tensor:
        """Maximum transmit power Pmax, W: a number, or a tensor (L,) if given per worker."""
        return self.max_power if self.max_power.ndim else float(self.max_power)

    @cached_property
    def max_power(self) -> Tensor:
        """Maximum transmit power Pmax, W; () or, if given per worker, (L,), float64."""
        if isinstance(self.pmax_dbw, tuple):
            return float64([10 ** (dbw / 10) for dbw in self.pmax_dbw])
        return float64(10 ** (self.pmax_dbw / 10))

    @cached_property
    def static_power(self) -> Tensor:
        """Static power P_c, W; () or (L,), float64."""
        return float64(self.static_power_w)

    @cached_property
    def compute_energy(self) -> Tensor:
        """Computation energy c_comp, J per bit of the model; () or (L,), float64."""
        return float64(self.compute_energy_j_per_bit)

    def model_bits(self, weights: int | Tensor = MODEL_WEIGHTS) -> Tensor:
        """Size of one upload, Z = ``bits_per_weight`` · weights + 32 checksum bits.

        Args:
            weights: number of weights of the model, or one per worker, (L,).

        Returns:
            Z, bits; () or (L,), float64.
        """
        return float64(self.bits_per_weight) * weights + CHECKSUM_BITS

    @property
    def noise_power_w(self) -> float:
        """Receiver noise power σ² over the bandwidth, W."""
        density_dbw = self.noise_dbm_per_hz - 30 + self.noise_figure_db
        return float(self.bandwidth_hz * 10 ** (density_dbw / 10))


#: Maximum size of a scenario file, bytes. Seven fields with 1024 values each need a fifth of it.
_MAX_FILE_BYTES = 1 << 20


#: Fields that determine how channels are drawn, without effect on recorded channels.
DRAWING_FIELDS = frozenset(Cell.model_fields) - {"workers", "csi_noise"} | {
    "noise_dbm_per_hz",
    "noise_figure_db",
}


class Scenario(Goal, Radio, Cell):
    """A cell, its radio and the optimisation problem; immutable, and compared by value.

    The fields are those of :class:`Cell`, :class:`Radio` and :class:`Goal`, with units in their
    descriptions: ``feduplink evaluate --help``, or ``Scenario.model_fields``. All are optional; the
    defaults are the setting of the paper. Fields per worker take one value, or a sequence of L.

    Raises:
        InputError: if a field is unknown or a value is not accepted.

    >>> import feduplink as fu
    >>> scenario = fu.Scenario(workers=2, pmax_dbw=["10 dBm", "-10 dBW"], rate_min=0.5)
    >>> scenario.pmax_w
    tensor([0.0100, 0.1000], dtype=torch.float64)
    """

    if TYPE_CHECKING:
        # The signature derived from the fields would be too strict: sequences are accepted for
        # per-worker fields, and a single constraint need not be in a tuple.
        def __init__(self, /, **fields: Any) -> None: ...

    def __eq__(self, other: object) -> bool:
        # pydantic's comparison includes cached tensors, whose truth value is undefined.
        return isinstance(other, Scenario) and self.model_dump() == other.model_dump()

    def with_limits(
        self,
        model_bits: Numbers,
        *,
        time_max_s: Numbers | None = None,
        energy_max_j: Numbers | None = None,
    ) -> Scenario:
        """Set the thresholds from limits on the time T and the energy E of one upload.

        r0 = Z ln 2 / (B T) and e0 = (ln 2 / B) / (E / Z − c_comp). Each argument is one value, or
        one per worker.

        Args:
            model_bits: Z of one upload, bits.
            time_max_s: limit T on the time, s; None: ``rate_min`` is kept.
            energy_max_j: limit E on the energy, J; None: ``ee_min`` is kept.

        Returns:
            The scenario with these thresholds.

        Raises:
            InputError: if a time is not positive, or an energy does not exceed c_comp Z.

        >>> round(Scenario().with_limits(1_272_352, time_max_s=7.0).rate_min, 4)
        0.6999
        """
        from feduplink.link.uploads import efficiency_for_energy, rate_for_time

        bits, changes = float64(model_bits), {}
        if time_max_s is not None:
            limit = _checked_limit("time_max_s", time_max_s, float64(0))
            changes["rate_min"] = rate_for_time(bits, limit, self.bandwidth_hz).tolist()
        if energy_max_j is not None:
            limit = _checked_limit("energy_max_j", energy_max_j, self.compute_energy * bits)
            e0 = efficiency_for_energy(bits, limit, self.bandwidth_hz, self.compute_energy)
            changes["ee_min"] = e0.tolist()
        return self.replace(**changes)

    def any_cell(self) -> Scenario:
        """Copy with positions redrawn in every realisation.

        Policies of a federation are made for this scenario, because the positions in a run are
        unknown beforehand.

        Returns:
            The scenario, with workers that do not move.
        """
        return self.replace(geometry="redrawn", speed_mps=0.0, coherence_time_s=None)

    def to_yaml(self) -> str:
        """YAML text of all fields.

        Returns:
            The text; :meth:`from_text` returns an equal scenario.
        """
        return yaml.safe_dump(self.model_dump(mode="json"), sort_keys=False)

    @classmethod
    def load(cls, path: str | Path) -> Scenario:
        """Load a scenario from a YAML file, or a scenario of this package by name.

        Args:
            path: a file, or one of :func:`shipped_scenarios`. For a file of the same name, write
                ``./name``.

        Returns:
            The scenario.

        Raises:
            InputError: if the file is missing, too large or invalid, or the name is unknown.
        """
        source = Path(path)
        if str(path) in shipped_scenarios() or not (source.suffix or source.exists()):
            return cls._shipped(str(path))
        return cls.from_text(read_limited(source, "scenario", _MAX_FILE_BYTES), str(path))

    def save(self, path: str | Path) -> Path:
        """Write the scenario to a YAML file.

        Args:
            path: the file.

        Returns:
            Path of the file, for :meth:`load`.
        """
        write_text(Path(path), self.to_yaml())
        return Path(path)

    @classmethod
    def _shipped(cls, name: str) -> Scenario:
        """Load a scenario of this package by name."""
        file = resources.files("feduplink.scenarios") / f"{name}.yaml"
        if not file.is_file():
            raise unknown_name("scenario", name, shipped_scenarios(), "or a YAML file")
        return cls.from_text(file.read_text(encoding="utf-8"), name)

    @classmethod
    def from_text(cls, text: str | bytes, origin: str = "the text") -> Scenario:
        """Parse a scenario from YAML or JSON.

        Args:
            text: a mapping of fields to values; bytes in UTF-8.
            origin: description of the text, for error messages.

        Returns:
            The scenario.

        Raises:
            InputError: if the text is not a mapping, or a field or value is not accepted.
        """
        return cls(**parse_mapping(text, f"scenario: {origin}"))


def shipped_scenarios() -> list[str]:
    """Names of the scenarios in this package.

    Returns:
        Sorted names, for :meth:`Scenario.load`.

    >>> import feduplink as fu
    >>> fu.Scenario.load(fu.shipped_scenarios()[0]).workers
    8
    """
    files = resources.files("feduplink.scenarios").iterdir()
    return sorted(f.name.removesuffix(".yaml") for f in files if f.name.endswith(".yaml"))


def _checked_limit(name: str, value: Numbers, above: Tensor) -> Tensor:
    """Check limits, () or (L,), on an upload: finite and above ``above``, () or (L,)."""
    limits = float64(value)
    if not bool((limits.isfinite() & (limits > above)).all()):
        least = f"{above.item():g}" if above.ndim == 0 else f"{above.tolist()}"
        because = ", the computation energy" if bool((above > 0).any()) else ""
        raise InputError(
            f"{name}: {limits.tolist()} is not accepted; accepted: finite and above {least}"
            f"{because}."
        )
    return limits
