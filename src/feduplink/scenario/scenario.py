"""One validated description of a system: the cell, the radio, the problem to solve in it.

>>> float(Scenario(workers=4, pmax_dbw=-30).pmax_w)
0.001
>>> Scenario(rate_min=-1)
Traceback (most recent call last):
...
feduplink.errors.InputError: rate_min: Input should be greater than or equal to 0 (got -1).
"""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from feduplink.errors import InputError, unknown_name
from feduplink.files import read_limited
from feduplink.scenario.cell import Cell
from feduplink.scenario.goal import Goal
from feduplink.scenario.part import float64
from feduplink.scenario.radio import Radio
from feduplink.yaml_text import parse_yaml

#: Of a file: seven fields with a value for each of 1024 workers are a fifth of it.
_MOST_BYTES = 1 << 20

if TYPE_CHECKING:
    from torch import Tensor

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

    # Type checkers would derive one from the fields, stricter than what is accepted: a list is one
    # value per worker, one constraint need not be a list.
    def __init__(self, /, **fields: Any) -> None:
        super().__init__(**fields)

    def __eq__(self, other: object) -> bool:
        # Not pydantic's, which also compares the tensors that were computed from the fields.
        return isinstance(other, Scenario) and self.model_dump() == other.model_dump()

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
        from feduplink.link.upload import efficiency_for_energy, rate_for_time

        changes: dict[str, Any] = {}
        if time_max_s is not None:
            _check_limit("time_max_s", time_max_s, float64(0))
            r0 = rate_for_time(model_bits, time_max_s, self.bandwidth_hz)
            changes["rate_min"] = r0.tolist()
        if energy_max_j is not None:
            computing = self.compute_energy * float64(model_bits)
            _check_limit("energy_max_j", energy_max_j, computing)
            e0 = efficiency_for_energy(
                model_bits, energy_max_j, self.bandwidth_hz, self.compute_energy
            )
            changes["ee_min"] = e0.tolist()
        return self.replace(**changes)

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
            text = read_limited(source, "scenario", _MOST_BYTES).decode("utf-8")
        except UnicodeDecodeError as error:
            raise InputError(f"scenario: {path} is no text in UTF-8: {error}.") from None
        return cls.from_text(text, str(path))

    @classmethod
    def _shipped(cls, name: str) -> Scenario:
        file = resources.files("feduplink.scenarios") / f"{name}.yaml"
        if not file.is_file():
            raise unknown_name("scenario", name, shipped_scenarios(), "or a YAML file")
        return cls.from_text(file.read_text(encoding="utf-8"), name)

    @classmethod
    def from_text(cls, text: str, origin: str = "the text") -> Scenario:
        """Read a scenario from YAML, or JSON; ``origin`` is what a refusal calls the text."""
        try:
            fields = parse_yaml(text)
        except ValueError as error:
            raise InputError(f"scenario: {origin} {str(error).removesuffix('.')}.") from None
        if not isinstance(fields, dict) or not all(isinstance(name, str) for name in fields):
            raise InputError(f"scenario: {origin} must hold a mapping of field names to values.")
        return cls(**fields)


def shipped_scenarios() -> list[str]:
    """Names of the scenarios that ship with the package, for :meth:`Scenario.from_yaml`."""
    files = resources.files("feduplink.scenarios").iterdir()
    return sorted(f.name.removesuffix(".yaml") for f in files if f.name.endswith(".yaml"))


def _check_limit(name: str, value: float | Tensor, above: Tensor) -> None:
    """Refuse limits that are not above what the computation takes; each () or (L,)."""
    limits = float64(value)
    if not bool((limits.isfinite() & (limits > above)).all()):
        least = f"{above.item():g}" if above.ndim == 0 else f"{above.tolist()}"
        because = ", which the computation takes" if bool((above > 0).any()) else ""
        raise InputError(
            f"{name}: {limits.tolist()} is not accepted; accepted: finite and above {least}"
            f"{because}."
        )
