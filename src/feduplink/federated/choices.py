"""What a federation is told by name and needs nothing else to be named."""

from __future__ import annotations

from typing import Literal

#: How images are spread over the workers: alike, with pixel noise, or with skewed labels.
Partition = Literal["iid", "gaussian", "dirichlet"]

#: Which SINR decides whether an upload arrives: that of the full set of senders, the least of the
#: round, as in the paper; or that of every phase, each weighing as many bits as are sent in it.
PacketSuccess = Literal["worst-phase", "every-phase"]
