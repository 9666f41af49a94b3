"""Nodes that are connected, waited for no longer than a run's ``timeout``."""

from __future__ import annotations

import time

from flwr.serverapp import Grid

from feduplink.errors import InputError

#: Seconds between two looks.
_LOOK_S = 0.5


def connected_nodes(grid: Grid, least: int, timeout_s: float) -> list[int]:
    """Ids of the connected nodes, once there are ``least``."""
    end = time.monotonic() + timeout_s
    while len(connected := list(grid.get_node_ids())) < least:
        if time.monotonic() > end:
            raise InputError(
                f"nodes: {len(connected)} connected within {timeout_s:g} s; accepted: {least}, "
                "one per worker of the scenario at the beginning and one later on."
            )
        time.sleep(_LOOK_S)
    return connected
