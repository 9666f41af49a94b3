"""Multipliers and open-loop parameters of settings, computed in the background and cached.

``pdx`` and ``dual`` need multipliers, ``openloop`` needs a target and an exponent. Computing them
takes seconds; in the meantime those of the nearest known setting are used.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import CancelledError, ThreadPoolExecutor
from dataclasses import dataclass, field

import torch
from torch import Tensor

from feduplink.channels import draw_csi, draw_training_csi
from feduplink.errors import InputError
from feduplink.judgement import judge
from feduplink.lagrangian import DualPoint, Multipliers
from feduplink.policies import CHANNELS, OpenLoop, UnrolledNetwork, UnrolledPolicy, shipped_pdx
from feduplink.problem import Problem
from feduplink.progress import Callback, Step, Work, report_to
from feduplink.randomness import torch_generator
from feduplink.scenario import Scenario
from feduplink.serving.playground.scene import FirstScene, Setting

LOGGER = logging.getLogger(__name__)

#: Range of the number of training channels, and maximum of channels · L², which limits the time.
MAX_CHANNELS, MIN_CHANNELS = 500, 100
_MAX_GAINS = 128_000
#: Number of test channels, as a multiple of the training channels.
TEST_RATIO = 10
OPEN_LOOP_CHANNELS = 200
#: Delay before a search starts, s, which a request for another setting cancels: a moving slider
#: requests many settings.
SETTLING_TIME_S = 0.25
#: Time after the last request for a setting after which its search may be replaced, s. The page
#: repeats its request 0.6 s after every response.
PATIENCE_S = 5.0
#: Maximum number of cached settings; the least recently used one is dropped.
CAPACITY = 128


@dataclass(frozen=True)
class TunedSetting:
    """Parameters computed for a setting.

    Attributes:
        setting: the setting.
        point: multipliers with their thresholds, (K, L).
        channels: number of training channels for the multipliers.
        open_loop: target P0 and exponent of ``openloop``; None: not tuned.
        shortfall: largest relative shortfall of ``pdx`` on the test channels; negative: slack.
        shortfall_error: half the width of its confidence interval.
    """

    setting: Setting
    point: DualPoint
    channels: int
    open_loop: tuple[float, float] | None = None
    shortfall: float = math.nan
    shortfall_error: float = math.nan

    @classmethod
    def shipped(cls) -> TunedSetting:
        """Default setting with the multipliers of the package."""
        setting = Setting.from_scene(FirstScene.from_scenario(Scenario()).scene)
        return cls(setting, shipped_pdx().point, CHANNELS)

    def point_for(self, setting: Setting, scenario: Scenario) -> DualPoint:
        """Approximate the multipliers of another setting.

        Multipliers relative to the worker weights are kept; workers that are not in this setting
        get their mean.

        Args:
            setting: the other setting.
            scenario: scenario of the other setting, with its weights and thresholds.

        Returns:
            Multipliers with the thresholds of the other setting.
        """
        if setting == self.setting:
            return self.point
        problem = Problem.from_scenario(scenario)
        weights = problem.utility.weights
        columns = {worker: column for column, worker in enumerate(self.setting.ids)}
        mean_column = len(columns)
        index = [columns.get(worker, mean_column) for worker in setting.ids]
        own_weights = self.point.multipliers.objective_weight

        def move(rows: Tensor) -> Tensor:
            """Map multipliers (..., L) of this setting to the workers of the other one."""
            relative = torch.cat(
                (rows / own_weights, rows.mean(-1, keepdim=True) / own_weights.mean()), dim=-1
            )
            return relative[..., index] * weights

        return DualPoint(
            Multipliers(
                move(self.point.multipliers.constraints),
                move(own_weights) if problem.utility.linear else own_weights.mean() * weights,
            ),
            problem.thresholds,
        )


def tune_setting(scenario: Scenario, network: UnrolledNetwork, setting: Setting) -> TunedSetting:
    """Calibrate multipliers and tune the open-loop parameters of a setting; takes seconds.

    Args:
        scenario: cell and radio.
        network: network of ``pdx``.
        setting: setting of the scenario.

    Returns:
        The parameters, with the shortfall of ``pdx`` on test channels.
    """
    scenario = setting.scenario(scenario)
    count = max(MIN_CHANNELS, min(MAX_CHANNELS, _MAX_GAINS // scenario.workers**2))
    training = draw_training_csi(scenario, count)
    if scenario == Scenario():
        shipped = TunedSetting.shipped()
        point, channels = shipped.point, shipped.channels
    else:
        # Without a margin, which would be large for this number of channels.
        point = UnrolledPolicy.calibrated(network, scenario, training, margin=0.0).point
        channels = count
    open_loop = OpenLoop.tuned(scenario, training[:OPEN_LOOP_CHANNELS])
    test = draw_csi(scenario, TEST_RATIO * count, torch_generator(0, "test-channels"))
    judgement = judge(scenario, test, UnrolledPolicy(scenario, network, point).allocate(test))
    return TunedSetting(
        setting,
        point,
        channels,
        open_loop=(open_loop.target, open_loop.fraction),
        shortfall=judgement.shortfall,
        shortfall_error=judgement.shortfall_error,
    )


@dataclass(frozen=True)
class TuningStatus:
    """Best parameters currently known for a setting.

    Attributes:
        tuned: parameters of the setting, or else of the nearest known setting.
        searching: whether the parameters of the setting are being computed.
        failure: reason why they cannot be computed, in a sentence; None: no failure.
    """

    tuned: TunedSetting
    searching: bool
    failure: str | None = None


@dataclass(eq=False)
class _Search(Callback):
    """Search for the parameters of a setting.

    Attributes:
        setting: the setting.
        requested_at: monotonic time of the last request for it, s.
        cancelled: event that ends the search at its next step.
        has_started: whether the settling time is over.
    """

    setting: Setting
    requested_at: float
    cancelled: threading.Event = field(default_factory=threading.Event)
    has_started: bool = False

    def on_step(self, work: Work, step: Step) -> None:
        """Raise ``CancelledError`` if the search has been cancelled."""
        if self.cancelled.is_set():
            raise CancelledError


class TunedSettings:
    """Least-recently-used cache of tuned settings; one thread tunes one setting at a time.

    Args:
        tune: function that computes the parameters of a setting.
        fallback: parameters used until others are known.
        settling_time_s: delay before a search starts, s.
        patience_s: time after the last request after which a search may be replaced, s.
        capacity: maximum number of cached settings.
    """

    def __init__(
        self,
        tune: Callable[[Setting], TunedSetting],
        fallback: TunedSetting,
        *,
        settling_time_s: float = SETTLING_TIME_S,
        patience_s: float = PATIENCE_S,
        capacity: int = CAPACITY,
    ) -> None:
        self._tune, self._fallback = tune, fallback
        self._settling_time_s, self._patience_s = settling_time_s, patience_s
        self._capacity = capacity
        # A text is the reason of a failure.
        self._results: OrderedDict[Setting, TunedSetting | str] = OrderedDict()
        self._search: _Search | None = None
        self._lock = threading.Lock()
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="playground-search")

    def stop(self) -> None:
        """Cancel the search and wait for its end."""
        with self._lock:
            if self._search is not None:
                self._search.cancelled.set()
        self._executor.shutdown()

    def status(self, setting: Setting) -> TuningStatus:
        """Best parameters known for a setting; starts a search if its own are unknown.

        Args:
            setting: the requested setting.

        Returns:
            The parameters, and the state of the search.
        """
        with self._lock:
            result = self._results.get(setting)
            if isinstance(result, TunedSetting):
                self._results.move_to_end(setting)
                return TuningStatus(result, searching=False)
            if result is None:
                self._request(setting)
            known = [tuned for tuned in self._results.values() if isinstance(tuned, TunedSetting)]
            nearest = min(
                (*known, self._fallback), key=lambda tuned: distance(tuned.setting, setting)
            )
            return TuningStatus(nearest, searching=result is None, failure=result)

    def _request(self, setting: Setting) -> None:
        """Start a search for a setting unless another one is in progress and still requested."""
        now, search = time.monotonic(), self._search
        if search is not None:
            if search.setting == setting:
                search.requested_at = now
                return
            if search.has_started and now - search.requested_at < self._patience_s:
                return
            search.cancelled.set()
        self._search = _Search(setting, now)
        self._executor.submit(self._run, self._search)

    def _run(self, search: _Search) -> None:
        """Perform a search in the thread and store its result."""
        if search.cancelled.wait(self._settling_time_s):
            return
        search.has_started = True
        result: TunedSetting | str
        try:
            with report_to(search):
                result = self._tune(search.setting)
        except CancelledError:
            return
        except InputError as error:
            result = str(error)
        except Exception:
            LOGGER.exception("playground: no multipliers for %s", search.setting)
            result = "The search for its multipliers failed; the log has the reason."
        with self._lock:
            self._results[search.setting] = result
            if len(self._results) > self._capacity:
                self._results.popitem(last=False)
            if self._search is search:
                self._search = None


def distance(one: Setting, other: Setting) -> float:
    """Distance between two settings.

    A distance of 1 corresponds to 10 dB in Pmax, a factor of e in the interference or the number of
    workers, 0.2 nats/s/Hz in the rate threshold, or 15 nats/s/Hz/W in the efficiency threshold.

    Args:
        one: a setting.
        other: another setting.

    Returns:
        The Euclidean norm of the scaled differences.
    """
    differences = (
        (one.pmax_dbw - other.pmax_dbw) / 10,
        math.log(one.interference / other.interference),
        (one.rate_min - other.rate_min) / 0.2,
        (one.ee_min - other.ee_min) / 15,
        math.log(len(one.ids) / len(other.ids)),
        # For equal numbers of workers, settings with the same workers are nearer.
        0.1 * len({*one.ids} ^ {*other.ids}) / len(other.ids),
    )
    return math.hypot(*differences)
