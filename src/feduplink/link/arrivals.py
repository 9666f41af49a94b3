"""Arrival rules: effective SINR at which the success probability of an upload is evaluated.

The SINR of a worker rises during its upload whenever another worker completes its own. An arrival
rule maps the SINRs of all phases to one effective SINR. To add a rule, write a function, an entry
in :data:`ARRIVAL_RULES` and its name in ``settings.ArrivalRule``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from torch import Tensor

if TYPE_CHECKING:
    from feduplink.link.uploads import Upload
    from feduplink.settings import ArrivalRule


def worst_phase(upload: Upload) -> Tensor:
    """Lowest SINR of the phases in which the worker transmits.

    If all workers start together, it is the SINR with all of them active, as in the paper.

    Args:
        upload: the uploads of the rounds.

    Returns:
        Effective SINR, (..., L), linear; 0 for a silent worker.
    """
    return upload.sinr


def every_phase(upload: Upload) -> Tensor:
    """Harmonic mean of the SINRs of the phases, weighted by the bits sent in them.

    The effective SINR is 1 / Σ_k (b_k / SINR_k), where b_k is the share of the bits sent in phase
    k. With PSR = exp(−m / SINR), the PSR at the effective SINR equals Π_k PSR_k^{b_k}.

    Args:
        upload: the uploads of the rounds.

    Returns:
        Effective SINR, (..., L), linear; 0 for a silent worker.
    """
    return 1 / upload.mean_inverse_sinr


#: Arrival rules by name.
ARRIVAL_RULES: dict[ArrivalRule, Callable[[Upload], Tensor]] = {
    "worst-phase": worst_phase,
    "every-phase": every_phase,
}
