"""Where tensors live: the device of a name, if it is there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from feduplink.errors import InputError

if TYPE_CHECKING:
    import torch


def usable_device(device: str | torch.device) -> torch.device:
    """The device of this name if it is there."""
    import torch  # here: options are declared long before anything is computed

    try:
        chosen = torch.device(device)
    except RuntimeError:
        raise InputError(f"device: {device!r} is unknown; accepted: cpu, cuda, cuda:N.") from None
    if chosen.type not in ("cpu", "cuda"):
        raise InputError(f"device: {device!r} is not supported; accepted: cpu, cuda, cuda:N.")
    if chosen.type == "cuda":
        if (chosen.index or 0) >= torch.cuda.device_count():
            raise InputError(f"device: {device!r} is not on this machine; accepted here: cpu.")
        return torch.device("cuda", chosen.index or 0)
    return chosen
