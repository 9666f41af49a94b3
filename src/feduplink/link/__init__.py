"""The uplink: SINR, rate, packet success, energy efficiency, airtime and energy.

Pure functions, batched over leading dimensions: ``csi`` H is (..., L, L), linear, in 1/W (channel
gains divided by the noise power); ``power`` is (..., L), W; results are (..., L). All functions are
differentiable, also at zero power, and preserve the dtype. Constants of the radio are scalars, or
tensors (L,) if they differ between workers.

>>> import torch
>>> from feduplink.link import sinr
>>> csi = torch.tensor([[100.0, 10.0], [5.0, 50.0]])
>>> sinr(csi, torch.tensor([0.01, 0.02]))
tensor([0.8333, 0.9524])
"""

from feduplink.link.measures import (
    AnyMeasure,
    EnergyEfficiency,
    Measure,
    PacketSuccess,
    Rate,
    SeparableMeasure,
    Slopes,
    SuccessRate,
    find_measure,
    success_rate,
)
from feduplink.link.quality import (
    cross_gains,
    efficiency_of_rate,
    interference,
    interference_of_each,
    inverse_draw,
    most_efficient_power,
    packet_error_rate,
    packet_success_rate,
    packet_success_with_slope,
    rate,
    rate_at,
    rate_from_log,
    rate_slopes,
    rate_with_slope,
    sinr,
    success_at,
    success_slopes,
)
from feduplink.link.state import LinkState, energy_efficiency, success, upload
from feduplink.link.uploads import (
    Schedule,
    Upload,
    airtime,
    bits_per_hz,
    efficiency_for_energy,
    energy,
    power_alone,
    rate_for_time,
    scheduled_upload,
    simultaneous_upload,
)

__all__ = [
    "AnyMeasure",
    "EnergyEfficiency",
    "LinkState",
    "Measure",
    "PacketSuccess",
    "Rate",
    "Schedule",
    "SeparableMeasure",
    "Slopes",
    "SuccessRate",
    "Upload",
    "airtime",
    "bits_per_hz",
    "cross_gains",
    "efficiency_for_energy",
    "efficiency_of_rate",
    "energy",
    "energy_efficiency",
    "find_measure",
    "interference",
    "interference_of_each",
    "inverse_draw",
    "most_efficient_power",
    "packet_error_rate",
    "packet_success_rate",
    "packet_success_with_slope",
    "power_alone",
    "rate",
    "rate_at",
    "rate_for_time",
    "rate_from_log",
    "rate_slopes",
    "rate_with_slope",
    "scheduled_upload",
    "simultaneous_upload",
    "sinr",
    "success",
    "success_at",
    "success_rate",
    "success_slopes",
    "upload",
]
