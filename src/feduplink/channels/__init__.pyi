from .channel_model import AntennaChannelModel, ChannelModel, Channels
from .csi import check_csi, denoised_csi, noisy_csi, scale_interference
from .drawing import draw_channels, draw_csi
from .rayleigh_cell import RayleighCell
from .receivers import mmse_csi, mrc_csi
from .recorded import read_channels, write_channels
from .source import ChannelSource
from .splits import (
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
