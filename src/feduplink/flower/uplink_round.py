"""What one round of a Flower run was on the air."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from flwr.app import MetricRecord
from torch import Tensor

from feduplink.federated.uplink.rounds import UplinkRecord


@dataclass(frozen=True)
class UplinkRound:
    """One round of training on the air; workers by their index.

    Attributes:
        number: of the round, from 1 as Flower counts.
        present: workers that had something to send: their node replied.
        transmitting: those that the policy let send.
        arrived: those whose upload the strategy was given.
        airtime_s: length of the upload, s; None where it is not defined (``ideal``).
        energy_j: spent by all workers, J; likewise.
        sent_bytes: put on the air.

    """

    number: int
    present: tuple[int, ...]
    transmitting: tuple[int, ...]
    arrived: tuple[int, ...]
    airtime_s: float | None
    energy_j: float | None
    sent_bytes: int

    @classmethod
    def from_record(cls, number: int, present: Tensor, record: UplinkRecord) -> UplinkRound:
        """Round ``number`` of the rounds in ``record``; ``present`` (L,) bool."""
        row = number - 1
        return cls(
            number,
            _indices(present),
            _indices(record.transmitting[row]),
            _indices(record.arrived[row]),
            _defined(record.airtime_s[row]),
            _defined(record.energy_j[row]),
            round(float(record.sent_bytes[row])),
        )

    @classmethod
    def from_json(cls, entry: dict[str, Any]) -> UplinkRound:
        """What :meth:`to_json` returned."""
        workers = ("present", "transmitting", "arrived")
        return cls(**{**entry, **{name: tuple(entry[name]) for name in workers}})

    def to_json(self) -> dict[str, Any]:
        """The fields by name."""
        return asdict(self)

    def metrics(self) -> MetricRecord:
        """For Flower: counts, seconds, joules and bytes; without those that are not defined."""
        figures: dict[str, int | float | None] = {
            "uplink-present": len(self.present),
            "uplink-senders": len(self.transmitting),
            "uplink-arrivals": len(self.arrived),
            "uplink-airtime-s": self.airtime_s,
            "uplink-energy-j": self.energy_j,
            "uplink-sent-bytes": self.sent_bytes,
        }
        return MetricRecord({name: v for name, v in figures.items() if v is not None})

    def __str__(self) -> str:
        """One line, for a log."""
        cost = "" if self.airtime_s is None else f", {self.airtime_s:.3g} s"
        cost += "" if self.energy_j is None else f", {self.energy_j:.3g} J"
        return (
            f"uplink: {len(self.present)} present, {len(self.transmitting)} sent, "
            f"{len(self.arrived)} arrived{cost}"
        )


def _indices(chosen: Tensor) -> tuple[int, ...]:
    return tuple(chosen.nonzero()[:, 0].tolist())


def _defined(value: Tensor) -> float | None:
    return None if bool(value.isnan()) else float(value)
