"""Rules of arrivals: which SINR decides whether an upload arrives.

While it is sent, the SINR of an upload rises whenever another worker completes its own. A rule
reduces its course to one effective SINR, at which the success rate is evaluated. A new rule is a
function here, an entry in :data:`ARRIVAL_RULES` and its name in ``settings.ArrivalRule``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from torch import Tensor

if TYPE_CHECKING:
    from feduplink.link.uploads import Upload
    from feduplink.settings import ArrivalRule


def worst_phase(upload: Upload) -> Tensor:
    """The lowest SINR while the worker sends, (..., L).

    If all senders start together, the SINR with all of them active, as in the paper.
    """
    return upload.sinr


def every_phase(upload: Upload) -> Tensor:
    """1 / Σ_k b_k / SINR_k over the phases k, b_k the share of the bits sent in phase k, (..., L).

    With PSR = exp(−m / SINR) the product of the success rates of all phases, each to the power of
    its share.
    """
    return 1 / upload.mean_inverse_sinr


#: Effective SINR of an upload by the name of the rule.
ARRIVAL_RULES: dict[ArrivalRule, Callable[[Upload], Tensor]] = {
    "worst-phase": worst_phase,
    "every-phase": every_phase,
}
