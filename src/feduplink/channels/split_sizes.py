"""Into which parts channels are split, and how large they are."""

from __future__ import annotations

#: Channels in each of the three sets, unless asked otherwise.
CHANNELS_PER_SPLIT = 1000

#: Channels to learn from, to choose by and to report on.
PARTS = ("training", "validation", "test")
