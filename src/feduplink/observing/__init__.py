"""Watching what takes long: one protocol for training, solving, proving, tuning and federating."""

from feduplink.observing.events import Advance, Observer, Work
from feduplink.observing.progress import show_progress
from feduplink.observing.tracking import Tracker, observed_by, track, track_each

__all__ = [
    "Advance",
    "Observer",
    "Tracker",
    "Work",
    "observed_by",
    "show_progress",
    "track",
    "track_each",
]
