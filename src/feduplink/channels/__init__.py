"""Where H comes from: geometry, path loss, fading, CSI, recorded files."""

from feduplink.channels.csi import check_csi, noisy_csi, scale_interference
from feduplink.channels.model import Channels, draw_channels, draw_csi
from feduplink.channels.recorded import read_channels, write_channels

__all__ = [
    "Channels",
    "check_csi",
    "draw_channels",
    "draw_csi",
    "noisy_csi",
    "read_channels",
    "scale_interference",
    "write_channels",
]
