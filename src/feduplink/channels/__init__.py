"""Channels: propagation models, receivers, drawn and recorded channels, and CSI."""

from feduplink.channels.channel_set import (
    Channels,
    draw_channels,
    draw_csi,
    draw_training_csi,
    make_channels,
    observe_csi,
    resample_csi,
)
from feduplink.channels.csi import (
    check_csi,
    denoised_csi,
    matched_filter_csi,
    noisy_csi,
    scale_interference,
)
from feduplink.channels.models import AntennaChannelModel, ChannelModel, RayleighCell, Realisations
from feduplink.channels.propagation import (
    base_station_positions,
    distances,
    gauss_markov,
    hata_cost231_gain,
    rayleigh,
    shadowing_gain,
    walk,
    wideband_spatial_gain,
    worker_positions,
)
from feduplink.channels.receivers import filtered_csi, interference_covariance, mmse_csi, mrc_csi
from feduplink.channels.recorded import CSI_DATASET, read_channels, write_channels
from feduplink.channels.summary import ChannelSummary

__all__ = [
    "CSI_DATASET",
    "AntennaChannelModel",
    "ChannelModel",
    "ChannelSummary",
    "Channels",
    "RayleighCell",
    "Realisations",
    "base_station_positions",
    "check_csi",
    "denoised_csi",
    "distances",
    "draw_channels",
    "draw_csi",
    "draw_training_csi",
    "filtered_csi",
    "gauss_markov",
    "hata_cost231_gain",
    "interference_covariance",
    "make_channels",
    "matched_filter_csi",
    "mmse_csi",
    "mrc_csi",
    "noisy_csi",
    "observe_csi",
    "rayleigh",
    "read_channels",
    "resample_csi",
    "scale_interference",
    "shadowing_gain",
    "walk",
    "wideband_spatial_gain",
    "worker_positions",
    "write_channels",
]
