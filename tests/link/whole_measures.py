"""Measures of the whole upload, as a user would write them."""

from __future__ import annotations

from torch import Tensor

from feduplink import LinkState, Measure


class Throughput(Measure):
    """Delivered kilobits per second of the worker's own upload."""

    def value(self, state: LinkState) -> Tensor:
        upload = state.upload
        on_air = upload.airtime_s > 0
        delivered = upload.sent_bits * state.arrivals
        return (delivered / upload.airtime_s.where(on_air, 1.0)).where(on_air, 0.0) / 1e3
