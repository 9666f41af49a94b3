"""A certificate: no policy that meets the constraints on these channels does better than this.

Weak duality bounds every such policy by the mean over the channels of the largest Lagrangian, for
any multipliers. Branch and bound finds that largest value from above, channel by channel. Where
packet success is priced, it works in log-powers, in which success is concave
(``relaxation_search``); where only rates and energy efficiencies are, in powers, in which a rate
is the difference of two concave functions (``power_search``).
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from feduplink.lagrangian import ChannelBatch, Prices
from feduplink.optimum.branch_and_bound import BranchAndBound, Certificate, Target
from feduplink.optimum.concave_relaxation import has_relaxation
from feduplink.optimum.log_power_search import RelaxationSearch
from feduplink.optimum.monotone_bound import check_monotone
from feduplink.optimum.power_search import PowerSearch
from feduplink.progress import Observer, track


def certify(
    batch: ChannelBatch,
    prices: Prices,
    *,
    budget_s: float,
    target_gap: float = 1e-3,
    channel_gap: float | Tensor | None = None,
    reached: float | None = None,
    record: bool = False,
    observers: Sequence[Observer] = (),
) -> Certificate:
    """Bound the largest Lagrangian of every channel from both sides.

    Stops when the mean gap is at most ``target_gap`` and, if given, that of every channel at most
    ``channel_gap``, or after ``budget_s`` seconds. The mean gap counts from ``reached``, if given
    (:class:`Target`). The ``observers`` are told of every
    :class:`Certificate` on the way. To ``record`` the search keeps its tree, for others to check;
    it then does without steps that only the search itself can prove, and may take longer.
    """
    check_provable(prices)
    search: type[BranchAndBound] = RelaxationSearch if _in_log_powers(prices) else PowerSearch
    target = Target(target_gap, channel_gap, reached)
    with track("certificate", budget_s, "s", observers) as tracker:
        return search(batch, prices, target, record=record).run(budget_s, tracker)


def check_provable(prices: Prices) -> None:
    """Refuse prices for which there is no bound."""
    if not has_relaxation(prices):
        check_monotone(prices)


def _in_log_powers(prices: Prices) -> bool:
    unusual = bool((prices.success > 0).any()) or bool(prices.others)
    return unusual and has_relaxation(prices)
