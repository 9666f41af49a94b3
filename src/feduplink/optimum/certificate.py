"""A certificate: no policy that meets the constraints on these channels does better than this.

Weak duality bounds every such policy by the mean over the channels of the largest Lagrangian, for
any multipliers. Branch and bound finds that largest value from above, channel by channel. Where
packet success is priced, it works in log-powers, in which success is concave
(``log_power_search``); where only rates and energy efficiencies are, in powers, in which a rate
is the difference of two concave functions (``power_search``).
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from feduplink.lagrangian import ChannelBatch, Prices
from feduplink.optimum.branch_and_bound import BranchAndBound, Budget, Certificate, Target
from feduplink.optimum.concave_relaxation import has_relaxation
from feduplink.optimum.log_power_search import RelaxationSearch
from feduplink.optimum.monotone_bound import check_monotone
from feduplink.optimum.power_search import PowerSearch
from feduplink.progress import Callback, track


def certify(
    batch: ChannelBatch,
    prices: Prices,
    *,
    max_boxes: int | None = None,
    budget_s: float | None = None,
    target_gap: float = 1e-3,
    channel_gap: float | Tensor | None = None,
    reached: float | None = None,
    record: bool = False,
    callbacks: Sequence[Callback] = (),
) -> Certificate:
    """Bound the largest Lagrangian of every channel from both sides.

    Args:
        batch: the channels.
        prices: of the Lagrangian.
        max_boxes: number of boxes after which the search stops; None: :data:`MAX_BOXES`, or no
            limit if there is one in seconds.
        budget_s: time after which the search stops, s; None: no limit. Where it stops then depends
            on the machine.
        target_gap: mean gap at which the search stops. It counts from ``reached``, if given
            (:class:`Target`).
        channel_gap: largest gap of a channel at which it stops, one for all or (N,).
        reached: mean value from which the mean gap counts.
        record: keep the tree, for others to check. The search then omits steps that only it can
            prove, and may take longer.
        callbacks: called with every :class:`Certificate` on the way.
    """
    check_provable(prices)
    search: type[BranchAndBound] = RelaxationSearch if _in_log_powers(prices) else PowerSearch
    target = Target(target_gap, channel_gap, reached)
    budget = Budget(max_boxes, budget_s)
    total, unit = (budget.boxes, "boxes") if budget_s is None else (budget_s, "s")
    with track("certificate", total, unit, callbacks) as progress:
        return search(batch, prices, target, record=record).run(budget, progress)


def check_provable(prices: Prices) -> None:
    """Refuse prices for which there is no bound."""
    if not has_relaxation(prices):
        check_monotone(prices)


def _in_log_powers(prices: Prices) -> bool:
    unusual = bool((prices.success > 0).any()) or bool(prices.others)
    return unusual and has_relaxation(prices)
