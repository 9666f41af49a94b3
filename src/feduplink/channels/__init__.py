"""Where H comes from: geometry, path loss, fading, CSI, recorded files."""

from feduplink.channels.csi import check_csi, denoised_csi, noisy_csi, scale_interference
from feduplink.channels.model import Channels, draw_channels, draw_csi
from feduplink.channels.recorded import read_channels, write_channels
from feduplink.channels.splits import ChannelSplits, draw_splits, draw_training_csi

__all__ = [
    "ChannelSplits",
    "Channels",
    "check_csi",
    "denoised_csi",
    "draw_channels",
    "draw_csi",
    "draw_splits",
    "draw_training_csi",
    "noisy_csi",
    "read_channels",
    "scale_interference",
    "write_channels",
]
