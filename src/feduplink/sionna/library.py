"""The only place that imports Sionna's channels, and says how to install it where it is missing."""

import torch

from feduplink.errors import InputError

try:
    # Sionna reseeds PyTorch's global generator when it is imported, which is not ours to change.
    with torch.random.fork_rng(devices=[]):
        from sionna.phy import config
        from sionna.phy.channel.tr38901 import InF, PanelArray, UMa, UMi
        from sionna.sys import (
            gen_hexgrid_topology,
            gen_tr38901_indoor_factory_topology,
            open_loop_uplink_power_control,
        )
except ImportError:
    raise InputError(
        "sionna: is not installed; accepted after pip install 'feduplink[sionna]'."
    ) from None

__all__ = [
    "InF",
    "PanelArray",
    "UMa",
    "UMi",
    "config",
    "gen_hexgrid_topology",
    "gen_tr38901_indoor_factory_topology",
    "open_loop_uplink_power_control",
]
