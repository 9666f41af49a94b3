"""What policies need to know of a setting, found in the background and kept.

``pdx`` and ``dual`` need multipliers and ``openloop`` a target and an exponent; to find them takes
seconds. Nobody waits: until they are found, those of the nearest setting that is known serve, and
whoever shows them says so.
"""

from __future__ import annotations

import contextlib
import logging
import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from feduplink.channels import draw_csi, draw_training_csi
from feduplink.errors import InputError
from feduplink.judgement import judge
from feduplink.lagrangian import DualPoint, Multipliers
from feduplink.policies import OpenLoop, UnrolledNetwork, UnrolledPolicy, shipped_pdx
from feduplink.policies.pdx import CHANNELS
from feduplink.problem import Problem
from feduplink.progress import Callback, Step, Work, report_to
from feduplink.randomness import torch_generator
from feduplink.scenario import Scenario
from feduplink.serving.playground.scene import FirstScene, Setting

_log = logging.getLogger(__name__)

#: Channels that a setting's multipliers are found on: fewer for many workers, where a channel takes
#: longer; and by how many times as many others they are judged.
_MOST_CHANNELS, _FEWEST_CHANNELS = 500, 100
_MOST_GAINS = 128_000
_JUDGED_TIMES = 10
#: Channels that ``openloop`` is tuned on.
_OPENLOOP_CHANNELS = 200
#: A search begins when nobody has asked for another setting for this long, s: a slider that is
#: being dragged passes many settings that nobody wants.
_SETTLED_S = 0.25
#: A search pauses between two steps until nobody has asked for this long, s, so that it does not
#: slow the answers; but not longer than this, s.
_QUIET_S = 0.12
_LONGEST_PAUSE_S = 0.5
#: Who waits for multipliers asks again and again; if nobody has for this long, s, nobody waits.
_PATIENCE_S = 5.0
#: Settings that are kept; the one that was not asked for the longest is forgotten first.
_MOST_KEPT = 128


@dataclass(frozen=True)
class Tuned:
    """What was found for a setting.

    Attributes:
        setting: which.
        point: multipliers, and the thresholds that they aim at, (K, L).
        channels: how many channels the multipliers were found on.
        open_loop: target P0 and exponent of ``openloop``; None while only multipliers are known.
        shortfall, shortfall_error: by which share ``pdx`` misses the threshold that it misses
            most, in the mean over channels drawn anew, and half the width of its interval;
            negative if there is something to spare.

    """

    setting: Setting
    point: DualPoint
    channels: int
    open_loop: tuple[float, float] | None = None
    shortfall: float = math.nan
    shortfall_error: float = math.nan

    def point_for(self, setting: Setting, scenario: Scenario) -> DualPoint:
        """The multipliers in another setting, whose ``scenario`` aims at its own thresholds.

        Prices relative to the workers' weights stay: those of a worker for the same worker, and
        their mean over all workers for one that is new.
        """
        if setting == self.setting:
            return self.point
        problem = Problem.from_scenario(scenario)
        weights = problem.utility.weights
        known = {worker: column for column, worker in enumerate(self.setting.ids)}
        here = [known.get(worker, -1) for worker in setting.ids]
        old_weights = self.point.multipliers.objective_weight

        def moved(rows: Tensor) -> Tensor:
            """(..., L of then) to (..., L of now)."""
            relative = torch.cat(
                (rows / old_weights, rows.mean(-1, keepdim=True) / old_weights.mean()), dim=-1
            )
            return relative[..., here] * weights

        return DualPoint(
            Multipliers(
                moved(self.point.multipliers.constraints),
                moved(old_weights) if problem.utility.linear else old_weights.mean() * weights,
            ),
            problem.thresholds,
        )


@dataclass(frozen=True)
class Known:
    """The best that is known of a setting now.

    Attributes:
        tuned: for the setting itself, or for the nearest one.
        searching: whether what belongs to the setting itself is being found.
        failure: in one sentence why it cannot be found, if so.

    """

    tuned: Tuned
    searching: bool
    failure: str | None = None


class _Ended(Exception):
    """The search ends without a result."""


class _Step(Callback):
    """Calls a function after every step of work."""

    def __init__(self, stepped: Callable[[], None]) -> None:
        self._stepped = stepped

    def on_begin(self, work: Work) -> None:
        """Nothing is done yet."""

    def on_step(self, work: Work, step: Step) -> None:
        """A step is done."""
        self._stepped()

    def on_end(self, work: Work) -> None:
        """Nothing is left to do."""


class TunedSettings:
    """Finds and keeps what settings of one cell need; one search at a time, in a thread.

    The thread runs from :meth:`start` to :meth:`stop`.

    Args:
        scenario: the cell and its radio.
        first: the setting to find first, before anybody asks.
        network: that of ``pdx``.

    """

    def __init__(self, scenario: Scenario, first: Setting, network: UnrolledNetwork) -> None:
        self._scenario, self._network = scenario, network
        shipped = Setting.from_scene(FirstScene.from_scenario(Scenario()).scene)
        self._shipped = Tuned(shipped, shipped_pdx().point, CHANNELS)
        self._kept: OrderedDict[Setting, Tuned] = OrderedDict()
        self._failures: OrderedDict[Setting, str] = OrderedDict()
        self._first = first
        # The next to be found, the one being found, when somebody last asked for that one, and
        # when anybody asked for anything; monotonic s.
        self._wanted: Setting | None = first
        self._current: Setting | None = None
        self._current_asked_at = -math.inf
        self._asked_at = -math.inf
        self._stopping = False
        self._change = threading.Condition()
        self._thread = threading.Thread(target=self._search, name="playground-search", daemon=True)

    def start(self) -> None:
        """Begin to search."""
        self._thread.start()

    def stop(self) -> None:
        """End the search that is under way, at its next step, and wait for that."""
        with self._change:
            self._stopping = True
            self._change.notify()
        self._thread.join()

    def known(self, setting: Setting) -> Known:
        """What is known of a setting; if that is not all, it becomes the next to be found."""
        with self._change:
            self._asked_at = time.monotonic()
            if (tuned := self._kept.get(setting)) is not None:
                self._kept.move_to_end(setting)
                # Who wanted another one has left it before it was begun; else they ask again.
                self._want(None)
                return Known(tuned, searching=False)
            failure = self._failures.get(setting)
            if setting == self._current:
                self._current_asked_at = self._asked_at
            elif failure is None:
                self._want(setting)
            nearest = min(
                (*self._kept.values(), self._shipped),
                key=lambda tuned: _distance(tuned.setting, setting),
            )
            return Known(nearest, searching=failure is None, failure=failure)

    def _want(self, setting: Setting | None) -> None:
        if setting != self._wanted:
            self._wanted = setting
            self._change.notify()

    def _search(self) -> None:
        with report_to(_Step(self._pause)):
            while not self._stopping:
                with contextlib.suppress(_Ended):
                    self._search_once()

    def _pause(self) -> None:
        """Let those who ask go first; end a search that nobody waits for any more."""
        with self._change:
            latest = time.monotonic() + _LONGEST_PAUSE_S
            while not self._stopping and (now := time.monotonic()) < min(
                latest, self._asked_at + _QUIET_S
            ):
                self._change.wait(min(latest, self._asked_at + _QUIET_S) - now)
            waited_for = self._current == self._first or (
                time.monotonic() - self._current_asked_at < _PATIENCE_S
            )
            if self._stopping or not waited_for:
                raise _Ended

    def _search_once(self) -> None:
        setting = self._settled()
        try:
            found = self._found(setting)
        except _Ended:
            self._finish()
        except InputError as error:
            self._finish(failure=(setting, str(error)))
        except Exception:
            # The thread has to live on: the next setting may be found.
            _log.exception("playground: no multipliers for %s", setting)
            sentence = "The search for its multipliers failed; the log says why."
            self._finish(failure=(setting, sentence))
        else:
            self._finish(found)

    def _settled(self) -> Setting:
        """Wait for a setting that is still wanted after a while, and begin with it."""
        with self._change:
            while not self._stopping:
                wanted = self._wanted
                if wanted is None:
                    self._change.wait()
                elif not self._change.wait(_SETTLED_S) and self._wanted == wanted:
                    self._current, self._wanted = wanted, None
                    self._current_asked_at = time.monotonic()
                    return wanted
        raise _Ended

    def _found(self, setting: Setting) -> Tuned:
        scenario = setting.scenario(self._scenario)
        count = _MOST_GAINS // scenario.workers**2
        count = max(_FEWEST_CHANNELS, min(_MOST_CHANNELS, count))
        training = draw_training_csi(scenario, count)
        if scenario == Scenario():
            point, channels = self._shipped.point, self._shipped.channels
        else:
            # Without a margin above the thresholds: on few channels it would be a large one.
            point = UnrolledPolicy.calibrated(self._network, scenario, training, margin=0.0).point
            channels = count
        open_loop = OpenLoop.tuned(scenario, training[:_OPENLOOP_CHANNELS])
        fresh = draw_csi(scenario, _JUDGED_TIMES * count, torch_generator(0, "test-channels"))
        power = UnrolledPolicy(scenario, self._network, point).allocate(fresh)
        judgement = judge(power, fresh, scenario)
        return Tuned(
            setting,
            point,
            channels,
            open_loop=(open_loop.target, open_loop.fraction),
            shortfall=judgement.shortfall,
            shortfall_error=judgement.shortfall_error,
        )

    def _finish(
        self, tuned: Tuned | None = None, failure: tuple[Setting, str] | None = None
    ) -> None:
        with self._change:
            self._current = None
            if tuned is not None:
                self._kept[tuned.setting] = tuned
            if failure is not None:
                self._failures[failure[0]] = failure[1]
            for kept in (self._kept, self._failures):
                while len(kept) > _MOST_KEPT:
                    kept.popitem(last=False)


def _distance(one: Setting, other: Setting) -> float:
    """How much two settings differ: 1 is 10 dB, a factor e, 0.2 nats/s/Hz or 15 nats/s/Hz/W."""
    workers = math.log(len(one.ids) / len(other.ids))
    differences = (
        (one.pmax_dbw - other.pmax_dbw) / 10,
        math.log(one.interference / other.interference),
        (one.rate_min - other.rate_min) / 0.2,
        (one.ee_min - other.ee_min) / 15,
        workers,
        # Of equally many, those with the same data are nearer.
        0.1 * len({*one.ids} ^ {*other.ids}) / len(other.ids),
    )
    return math.hypot(*differences)
