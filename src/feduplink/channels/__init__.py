"""Where H comes from: channel models, drawn and recorded channels, CSI."""

from feduplink.channels.channel_model import AntennaChannelModel, ChannelModel, Channels
from feduplink.channels.csi import check_csi, denoised_csi, noisy_csi, scale_interference
from feduplink.channels.drawing import draw_channels, draw_csi
from feduplink.channels.rayleigh_cell import RayleighCell
from feduplink.channels.receivers import mmse_csi, mrc_csi
from feduplink.channels.recorded import read_channels, write_channels
from feduplink.channels.source import ChannelSource
from feduplink.channels.splits import (
    ChannelSplits,
    draw_splits,
    draw_training_csi,
    resampled_csi,
    split_recording,
)

__all__ = [
    "AntennaChannelModel",
    "ChannelModel",
    "ChannelSource",
    "ChannelSplits",
    "Channels",
    "RayleighCell",
    "check_csi",
    "denoised_csi",
    "draw_channels",
    "draw_csi",
    "draw_splits",
    "draw_training_csi",
    "mmse_csi",
    "mrc_csi",
    "noisy_csi",
    "read_channels",
    "resampled_csi",
    "scale_interference",
    "split_recording",
    "write_channels",
]
