"""One validated description of a system: the cell, the radio, the problem to solve in it.

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
    """Fields that belong together; immutable, and equal when all are equal."""

    #: Fields that may hold one value, or one per worker.
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
        """The number of workers if any of these fields lists a value per worker, else None."""
        listed = any(isinstance(getattr(self, field), tuple) for field in fields)
        return self.workers if listed else None


def float64(values: Numbers) -> Tensor:
    """Numbers as a tensor of double precision."""
    # Imported here: what describes a system is needed long before anything is computed, as for
    # the options of a command, and PyTorch takes seconds to import.
    import torch

    return torch.as_tensor(values, dtype=torch.float64)


_PATTERN = re.compile(r"\s*(?P<measure>[^<>=\s]+)\s*(?P<sense>[<>]=)\s*(?P<limits>.+)")


class ConstraintText(NamedTuple):
    """The parts of a written constraint.

    Attributes:
        measure: its name, registered or ``package.module:Class``.
        at_most: whether the limit is an upper one.
        limits: one, or one per worker.

    """

    measure: str
    at_most: bool
    limits: tuple[float, ...]

    @classmethod
    def parse(cls, text: str, workers: int) -> ConstraintText:
        """Take a constraint apart.

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


#: A registered name or ``package.module:Object``; only the name is kept.
ChannelModelName = Annotated[str, AfterValidator(CHANNEL_MODELS.check), CHANNEL_MODELS]


class Cell(ScenarioPart):
    """A square cell with its base stations and workers."""

    antennas: int = Field(10, ge=1, le=1024, description="antennas n_R of each base station")
    base_stations: int = Field(1, ge=1, le=64, description="base stations in the cell")
    channel_model: ChannelModelName = Field("wbs", description="what draws the channels")
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
                "speed_mps and coherence_time_s describe workers that stay; accepted only with "
                "geometry: kept"
            )
        return self


UtilityName = Literal["weighted-sum", "proportional-fairness"]

# Far above anything a cell reaches (40 nats/s/Hz is an SINR of 170 dB), low enough to catch
# a threshold given in the wrong unit.
_Rate = Annotated[float, Field(ge=0, le=40)]
_EnergyEfficiency = Annotated[float, Field(ge=0, le=1e6)]
_Weight = Annotated[float, Field(gt=0, le=1e9)]


class Goal(ScenarioPart):
    """The problem to solve; :class:`feduplink.Problem` is what computes with it."""

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
        """ω, (L,) float64. ``data`` and ``uniform`` sum to one."""
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
        """r0, (L,) float64, nats/s/Hz."""
        return float64(self.rate_min).expand(self.workers)

    @cached_property
    def ee_thresholds(self) -> Tensor:
        """e0, (L,) float64, nats/s/Hz/W."""
        return float64(self.ee_min).expand(self.workers)


def data_sizes(workers: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """The paper's draw of relative data sizes k_i, (L,) integers in [100, 1000)."""
    import numpy as np  # as PyTorch: not where a system is only described

    return np.random.RandomState(42).randint(100, 1000, workers).astype(np.int64)


#: Weights of the paper's network for digits, the model whose upload is assumed by default.
MODEL_WEIGHTS = 39_760

#: Bits of the checksum that every upload ends with.
CHECKSUM_BITS = 32

# Ten times the power under which a worker counts as silent, 1e-10 W, is the least Pmax.
_PowerDbw = Annotated[float, Field(ge=-90, le=60)]
_Watts = Annotated[float, Field(gt=0, le=1e3)]
_ComputeEnergy = Annotated[float, Field(ge=0, le=1)]
_Bits = Annotated[float, Field(gt=0, le=1024)]


def _in_dbw(given: Any) -> Any:
    """A text that holds a power, in dBW; anything else as it is, to be validated."""
    return parse_power_dbw(given, "pmax_dbw") if isinstance(given, str) else given


class Radio(ScenarioPart):
    """Powers, bandwidth, noise, coding and what sending costs.

    Powers are given in dBW and noise in dBm/Hz at this border only; the properties give watts and
    linear ratios, which everything else uses.
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
        32.0, description="bits that a model's weight is sent with; one value or one per worker"
    )

    @field_validator("pmax_dbw", mode="before")
    @classmethod
    def _powers_with_units(cls, given: Any) -> Any:
        """Take powers in dBm, mW and W as well."""
        return tuple(map(_in_dbw, given)) if isinstance(given, list | tuple) else _in_dbw(given)

    @property
    def pmax_w(self) -> float | Tensor:
        """Pmax, the largest transmit power, W: a number, or a tensor (L,) with one per worker.

        Not an array of NumPy, which PyTorch refuses as a factor.
        """
        return self.max_power if self.max_power.ndim else float(self.max_power)

    @cached_property
    def max_power(self) -> Tensor:
        """Pmax, W; () for one value, (L,) for one per worker, float64."""
        if isinstance(self.pmax_dbw, tuple):
            return float64([10 ** (dbw / 10) for dbw in self.pmax_dbw])
        return float64(10 ** (self.pmax_dbw / 10))

    @cached_property
    def static_power(self) -> Tensor:
        """P_c, W; () or (L,), float64."""
        return float64(self.static_power_w)

    @cached_property
    def compute_energy(self) -> Tensor:
        """c_comp, J per bit of the model; () or (L,), float64."""
        return float64(self.compute_energy_j_per_bit)

    def model_bits(self, weights: int | Tensor = MODEL_WEIGHTS) -> Tensor:
        """Z, the bits of one upload: so many weights and their checksum; () or (L,), float64.

        ``weights`` is one number, or one per worker, (L,).
        """
        return float64(self.bits_per_weight) * weights + CHECKSUM_BITS

    @property
    def noise_power_w(self) -> float:
        """Receiver noise power σ² over the bandwidth, W."""
        density_dbw = self.noise_dbm_per_hz - 30 + self.noise_figure_db
        return float(self.bandwidth_hz * 10 ** (density_dbw / 10))


#: Of a file: seven fields with a value for each of 1024 workers are a fifth of it.
_MOST_BYTES = 1 << 20


#: What describes how channels are drawn; without effect on channels that are recorded.
DRAWING_FIELDS = frozenset(Cell.model_fields) - {"workers", "csi_noise"} | {
    "noise_dbm_per_hz",
    "noise_figure_db",
}


class Scenario(Goal, Radio, Cell):
    """A cell, its radio and the problem; immutable, and equal when all fields are equal.

    Who needs only a part of it says so: a scenario is a :class:`Cell`, a :class:`Radio` and a
    :class:`Goal`.
    """

    if TYPE_CHECKING:
        # Type checkers would derive one from the fields, stricter than what is accepted: a list is
        # one value per worker, one constraint need not be a list.
        def __init__(self, /, **fields: Any) -> None: ...

    def __eq__(self, other: object) -> bool:
        # Not pydantic's, which also compares the tensors that were computed from the fields.
        return isinstance(other, Scenario) and self.model_dump() == other.model_dump()

    def with_limits(
        self,
        model_bits: Numbers,
        *,
        time_max_s: Numbers | None = None,
        energy_max_j: Numbers | None = None,
    ) -> Scenario:
        """The scenario with thresholds from what an upload of ``model_bits`` Z may take.

        r0 = Z ln 2 / (B T) for a time T and e0 = (ln 2 / B) / (E / Z − c_comp) for an energy E,
        each a scalar or one value per worker.

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
        """The scenario that policies of a federation are made for.

        The cell of a run is not known in advance.
        """
        return self.replace(geometry="redrawn", speed_mps=0.0, coherence_time_s=None)

    def to_yaml(self) -> str:
        """The scenario as YAML text; :meth:`load` reads it back to an equal one."""
        return yaml.safe_dump(self.model_dump(mode="json"), sort_keys=False)

    @classmethod
    def load(cls, path: str | Path) -> Scenario:
        """Read a scenario from a file, or by the name of one that ships with the package.

        A shipped one's name is never taken for a file's; write ``./name`` for that.
        """
        source = Path(path)
        if str(path) in shipped_scenarios() or not (source.suffix or source.exists()):
            return cls._shipped(str(path))
        return cls.from_text(read_limited(source, "scenario", _MOST_BYTES), str(path))

    def save(self, path: str | Path) -> Path:
        """Write the scenario to a YAML file, which :meth:`load` reads."""
        write_text(Path(path), self.to_yaml())
        return Path(path)

    @classmethod
    def _shipped(cls, name: str) -> Scenario:
        file = resources.files("feduplink.scenarios") / f"{name}.yaml"
        if not file.is_file():
            raise unknown_name("scenario", name, shipped_scenarios(), "or a YAML file")
        return cls.from_text(file.read_text(encoding="utf-8"), name)

    @classmethod
    def from_text(cls, text: str | bytes, origin: str = "the text") -> Scenario:
        """Read a scenario from YAML, or JSON; ``origin`` names the text in a refusal."""
        return cls(**parse_mapping(text, f"scenario: {origin}"))


def shipped_scenarios() -> list[str]:
    """Names of the scenarios that ship with the package, for :meth:`Scenario.load`."""
    files = resources.files("feduplink.scenarios").iterdir()
    return sorted(f.name.removesuffix(".yaml") for f in files if f.name.endswith(".yaml"))


def _checked_limit(name: str, value: Numbers, above: Tensor) -> Tensor:
    """The limits, () or (L,), unless they are not above what the computation takes."""
    limits = float64(value)
    if not bool((limits.isfinite() & (limits > above)).all()):
        least = f"{above.item():g}" if above.ndim == 0 else f"{above.tolist()}"
        because = ", which the computation takes" if bool((above > 0).any()) else ""
        raise InputError(
            f"{name}: {limits.tolist()} is not accepted; accepted: finite and above {least}"
            f"{because}."
        )
    return limits
