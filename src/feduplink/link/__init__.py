"""The uplink: what a worker's link is worth at given powers, and what a round of uploads takes.

Pure functions, batched over leading dimensions: ``csi`` is (..., L, L), ``power`` (..., L) in W,
results are (..., L). All are differentiable, also where a power is zero, and keep the dtype. The
radio's constants are scalars, or tensors (L,) where they differ from worker to worker.

>>> import torch
>>> csi = torch.tensor([[100.0, 10.0], [5.0, 50.0]])
>>> sinr(csi, torch.tensor([0.01, 0.02]))
tensor([0.8333, 0.9524])
"""

from feduplink.link.orthogonal import ofdma, tdma
from feduplink.link.quality import (
    energy_efficiency,
    most_efficient_power,
    packet_error_rate,
    packet_success_rate,
    rate,
    sinr,
)
from feduplink.link.upload import (
    Upload,
    airtime,
    efficiency_for_energy,
    energy,
    rate_for_time,
    simultaneous_upload,
)

__all__ = [
    "Upload",
    "airtime",
    "efficiency_for_energy",
    "energy",
    "energy_efficiency",
    "most_efficient_power",
    "ofdma",
    "packet_error_rate",
    "packet_success_rate",
    "rate",
    "rate_for_time",
    "simultaneous_upload",
    "sinr",
    "tdma",
]
