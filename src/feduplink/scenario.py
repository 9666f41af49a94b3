"""One validated description of a system: the cell, the radio, the problem to solve in it.

>>> float(Scenario(workers=4, pmax_dbw=-30).pmax_w)
0.001
>>> Scenario(rate_min=-1)
Traceback (most recent call last):
...
feduplink.errors.InputError: rate_min: Input should be greater than or equal to 0 (got -1).
"""

from __future__ import annotations

from functools import cached_property
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import numpy as np
import torch
import yaml
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator
from torch import Tensor

from feduplink import link
from feduplink.errors import InputError
from feduplink.registry import CHANNEL_MODELS

#: Bits of the checksum that every upload ends with.
CHECKSUM_BITS = 32


def _known_channel_model(name: str) -> str:
    model = CHANNEL_MODELS.find(name)
    if not callable(model) or (isinstance(model, type) and not hasattr(model, "draw")):
        raise InputError(
            f"channel_model: {name} is no channel model; accepted: a class that is built for a "
            "scenario and has draw(count, generator)."
        )
    return name


#: A registered name or ``package.module:Object``; only the name is kept.
ChannelModelName = Annotated[str, AfterValidator(_known_channel_model), CHANNEL_MODELS]
ObjectiveName = Literal["psr", "rate", "energy_efficiency"]
UtilityName = Literal["weighted-sum", "proportional-fairness"]

# Far above anything a cell reaches (40 nats/s/Hz is an SINR of 170 dB), low enough to catch
# a threshold given in the wrong unit.
_Rate = Annotated[float, Field(ge=0, le=40)]
_EnergyEfficiency = Annotated[float, Field(ge=0, le=1e6)]
_Weight = Annotated[float, Field(gt=0, le=1e9)]
_PowerDbw = Annotated[float, Field(ge=-120, le=60)]
_Watts = Annotated[float, Field(gt=0, le=1e3)]
_ComputeEnergy = Annotated[float, Field(ge=0, le=1)]
_Bits = Annotated[float, Field(gt=0, le=1024)]

#: Fields that may hold one value, or one per worker.
_PER_WORKER = (
    "pmax_dbw",
    "static_power_w",
    "compute_energy_j_per_bit",
    "bits_per_weight",
    "rate_min",
    "ee_min",
    "weights",
)

#: What describes how channels are drawn; without effect on channels that are recorded.
DRAWING_FIELDS = frozenset(
    {
        "antennas",
        "base_stations",
        "channel_model",
        "cell_side_m",
        "geometry",
        "speed_mps",
        "round_interval_s",
        "coherence_time_s",
        "carrier_hz",
        "interference",
        "noise_dbm_per_hz",
        "noise_figure_db",
    }
)


class Scenario(BaseModel):
    """A cell, its radio and the constraints; immutable, and equal when all fields are equal.

    Powers are given in dBW and noise in dBm/Hz at this border only; the properties below give
    watts and linear ratios, which everything else uses.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    workers: int = Field(8, ge=1, le=1024, description="number of workers L")
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

    pmax_dbw: _PowerDbw | tuple[_PowerDbw, ...] = Field(
        -20.0, description="largest transmit power, dBW; one value or one per worker"
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

    objective: ObjectiveName = Field("psr", description="inner function of the objective")
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

    def __init__(self, /, **fields: Any) -> None:
        try:
            super().__init__(**fields)
        except ValidationError as error:
            raise InputError(first_problem(error, type(self))) from None

    @model_validator(mode="after")
    def _check_lengths_and_motion(self) -> Self:
        for name in _PER_WORKER:
            value = getattr(self, name)
            if isinstance(value, tuple) and len(value) != self.workers:
                raise ValueError(
                    f"{name} has {len(value)} entries; accepted: one value, or one for each of "
                    f"the {self.workers} workers"
                )
        if self.geometry == "redrawn" and (self.speed_mps > 0 or self.coherence_time_s):
            raise ValueError(
                "speed_mps and coherence_time_s describe workers that stay; accepted only with "
                "geometry: kept"
            )
        return self

    @cached_property
    def pmax_w(self) -> Tensor:
        """Largest transmit power, W; () for one value, (L,) for one per worker, float64."""
        return torch.tensor(
            tuple(10 ** (dbw / 10) for dbw in self.pmax_dbw)
            if isinstance(self.pmax_dbw, tuple)
            else 10 ** (self.pmax_dbw / 10),
            dtype=torch.float64,
        )

    @cached_property
    def static_power(self) -> Tensor:
        """P_c, W; () or (L,), float64."""
        return torch.tensor(self.static_power_w, dtype=torch.float64)

    @cached_property
    def compute_energy(self) -> Tensor:
        """c_comp, J per bit of the model; () or (L,), float64."""
        return torch.tensor(self.compute_energy_j_per_bit, dtype=torch.float64)

    def model_bits(self, weights: int) -> Tensor:
        """Z, the bits of one upload: so many weights and their checksum; () or (L,), float64."""
        return torch.tensor(self.bits_per_weight, dtype=torch.float64) * weights + CHECKSUM_BITS

    def listed_per_worker(self, *fields: str) -> int | None:
        """The number of workers if any of these fields lists a value per worker, else None."""
        listed = any(isinstance(getattr(self, field), tuple) for field in fields)
        return self.workers if listed else None

    def with_limits(
        self,
        model_bits: float | Tensor,
        *,
        time_max_s: float | Tensor | None = None,
        energy_max_j: float | Tensor | None = None,
    ) -> Scenario:
        """The scenario with thresholds from what an upload of ``model_bits`` Z may take.

        r0 = Z ln 2 / (B T) for a time T and e0 = (ln 2 / B) / (E / Z − c_comp) for an energy E,
        each a scalar or one value per worker.

        >>> round(Scenario().with_limits(1_272_352, time_max_s=7.0).rate_min, 4)
        0.6999
        """
        changes: dict[str, Any] = {}
        if time_max_s is not None:
            _check_limit("time_max_s", time_max_s, torch.zeros(()))
            r0 = link.rate_for_time(model_bits, time_max_s, self.bandwidth_hz)
            changes["rate_min"] = r0.tolist()
        if energy_max_j is not None:
            computing = self.compute_energy * torch.as_tensor(model_bits)
            _check_limit("energy_max_j", energy_max_j, computing)
            e0 = link.efficiency_for_energy(
                model_bits, energy_max_j, self.bandwidth_hz, self.compute_energy
            )
            changes["ee_min"] = e0.tolist()
        return self.replace(**changes)

    @property
    def noise_power_w(self) -> float:
        """Receiver noise power σ² over the bandwidth, W."""
        density_dbw = self.noise_dbm_per_hz - 30 + self.noise_figure_db
        return float(self.bandwidth_hz * 10 ** (density_dbw / 10))

    @cached_property
    def worker_weights(self) -> Tensor:
        """ω, (L,) float64. ``data`` and ``uniform`` sum to one."""
        if isinstance(self.weights, tuple):
            return torch.tensor(self.weights, dtype=torch.float64)
        if self.weights == "ones":
            return torch.ones(self.workers, dtype=torch.float64)
        if self.weights == "uniform":
            return torch.full((self.workers,), 1 / self.workers, dtype=torch.float64)
        sizes = torch.from_numpy(data_sizes(self.workers)).to(torch.float64)
        return sizes / sizes.sum()

    @cached_property
    def rate_thresholds(self) -> Tensor:
        """r0, (L,) float64, nats/s/Hz."""
        return torch.tensor(self.rate_min, dtype=torch.float64).expand(self.workers)

    @cached_property
    def ee_thresholds(self) -> Tensor:
        """e0, (L,) float64, nats/s/Hz/W."""
        return torch.tensor(self.ee_min, dtype=torch.float64).expand(self.workers)

    def replace(self, **changes: Any) -> Scenario:
        """A copy with some fields changed, validated again."""
        return Scenario(**{**self.model_dump(), **changes})

    def to_yaml(self) -> str:
        """The scenario as YAML text; :meth:`from_yaml` reads it back to an equal one."""
        return yaml.safe_dump(self.model_dump(mode="json"), sort_keys=False)

    @classmethod
    def from_yaml(cls, path: str | Path) -> Scenario:
        """Read a scenario from a file, or by the name of one that ships with the package.

        A shipped one's name is never taken for a file's; write ``./name`` for that.
        """
        source = Path(path)
        if str(path) in shipped_scenarios() or not (source.suffix or source.exists()):
            return cls._shipped(str(path))
        try:
            return cls._from_text(source.read_text(encoding="utf-8"), str(path))
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"scenario: cannot read {path}: {error}.") from None

    @classmethod
    def _shipped(cls, name: str) -> Scenario:
        file = resources.files("feduplink.scenarios") / f"{name}.yaml"
        if not file.is_file():
            raise InputError(
                f"scenario: no file and no shipped scenario is called {name!r}; "
                f"shipped: {', '.join(shipped_scenarios())}."
            )
        return cls._from_text(file.read_text(encoding="utf-8"), name)

    @classmethod
    def _from_text(cls, text: str, origin: str) -> Scenario:
        try:
            fields = yaml.safe_load(text)
        except yaml.YAMLError as error:
            reason = " ".join(str(error).split())
            raise InputError(f"scenario: {origin} is not YAML: {reason}.") from None
        if not isinstance(fields, dict) or not all(isinstance(name, str) for name in fields):
            raise InputError(f"scenario: {origin} must hold a mapping of field names to values.")
        return cls(**fields)


def shipped_scenarios() -> list[str]:
    """Names of the scenarios that ship with the package, for :meth:`Scenario.from_yaml`."""
    files = resources.files("feduplink.scenarios").iterdir()
    return sorted(f.name.removesuffix(".yaml") for f in files if f.name.endswith(".yaml"))


def data_sizes(workers: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """The paper's draw of relative data sizes k_i, (L,) integers in [100, 1000)."""
    return np.random.RandomState(42).randint(100, 1000, workers).astype(np.int64)


def _check_limit(name: str, value: float | Tensor, above: Tensor) -> None:
    """Refuse limits that are not above what the computation takes; each () or (L,)."""
    limits = torch.as_tensor(value)
    if not bool((limits.isfinite() & (limits > above)).all()):
        least = f"{above.item():g}" if above.ndim == 0 else f"{above.tolist()}"
        because = ", which the computation takes" if bool((above > 0).any()) else ""
        raise InputError(
            f"{name}: {limits.tolist()} is not accepted; accepted: finite and above {least}"
            f"{because}."
        )


def first_problem(error: ValidationError, model: type[BaseModel]) -> str:
    """One sentence for the first problem pydantic found in the fields of ``model``."""
    problems = error.errors()
    # A field that may be one value or a list reports once for each; the one that got deepest,
    # to an entry of the list, is about what was meant.
    same_field = [p for p in problems if p["loc"][:1] == problems[0]["loc"][:1]]
    problem = max(same_field, key=lambda p: len(p["loc"]))
    if isinstance(refusal := problem.get("ctx", {}).get("error"), InputError):
        return str(refusal)
    field = next((str(part) for part in problem["loc"]), "")
    message = problem["msg"].removeprefix("Value error, ")
    if not field:
        return f"{message}."
    if problem["type"] == "extra_forbidden":
        return f"{field}: no such field; accepted: {', '.join(model.model_fields)}."
    return f"{field}: {message} (got {problem['input']!r})."
