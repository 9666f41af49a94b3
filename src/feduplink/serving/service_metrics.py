"""What the service counts, in the text format of Prometheus."""

from __future__ import annotations

import os
from bisect import bisect_left
from collections import Counter
from itertools import accumulate
from pathlib import Path

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

#: Upper edges of the histograms, s: fine around the 450 µs loop of a real-time controller.
_EDGES_S = (1e-4, 2e-4, 3e-4, 4.5e-4, 1e-3, 2e-3, 3e-3, 5e-3, 0.01, 0.03, 0.1, 0.3, 1, 3, 10)


class Histogram:
    """Durations, counted by size."""

    def __init__(self) -> None:
        self._counts = [0] * (len(_EDGES_S) + 1)
        self._sum_s = 0.0

    def observe(self, seconds: float) -> None:
        """Count one duration."""
        self._counts[bisect_left(_EDGES_S, seconds)] += 1
        self._sum_s += seconds

    def lines(self, name: str) -> list[str]:
        """As Prometheus reads it: how many were at most as long as each edge."""
        edges = [f"{edge:g}" for edge in _EDGES_S] + ["+Inf"]
        below = list(accumulate(self._counts))
        return [
            *(
                f'{name}_bucket{{le="{edge}"}} {count}'
                for edge, count in zip(edges, below, strict=True)
            ),
            f"{name}_sum {self._sum_s:g}",
            f"{name}_count {below[-1]}",
        ]


class ServiceMetrics:
    """Counts since the start. All of it is written by the event loop's thread.

    Attributes:
        in_flight: requests under way now, those to /healthz and /metrics left out.
    """

    def __init__(self) -> None:
        self.in_flight = 0
        self._answers: Counter[tuple[str, str, int]] = Counter()
        self._answer_times = Histogram()
        self._computations = Histogram()
        self._channels = 0

    def answered(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count an answer; ``route`` is one of those the service has, not what was asked for."""
        self._answers[method, route, status] += 1
        self._answer_times.observe(seconds)

    def computed(self, channels: int, seconds: float) -> None:
        """Count a computation of powers for so many channels."""
        self._channels += channels
        self._computations.observe(seconds)

    def text(self) -> str:
        """All of it, for ``GET /metrics``."""
        answers = [
            f'feduplink_requests_total{{method="{method}",route="{route}",status="{status}"}} {n}'
            for (method, route, status), n in sorted(self._answers.items())
        ]
        families: list[tuple[str, str, str, list[str] | int]] = [
            ("requests_total", "counter", "Answers by method, route and status.", answers),
            (
                "request_seconds",
                "histogram",
                "From a request's header to its answer.",
                self._answer_times.lines("feduplink_request_seconds"),
            ),
            ("requests_in_flight", "gauge", "Requests under way.", self.in_flight),
            (
                "channels_total",
                "counter",
                "Channels with computed powers.",
                self._channels,
            ),
            (
                "computation_seconds",
                "histogram",
                "Computations, each for all requests that had arrived.",
                self._computations.lines("feduplink_computation_seconds"),
            ),
            ("resident_memory_bytes", "gauge", "Memory of the process.", _resident_bytes()),
        ]
        lines: list[str] = []
        for name, kind, told, samples in families:
            full = f"feduplink_{name}"
            lines += [f"# HELP {full} {told}", f"# TYPE {full} {kind}"]
            lines += samples if isinstance(samples, list) else [f"{full} {samples}"]
        return "\n".join(lines) + "\n"


def _resident_bytes() -> int:
    """Resident memory; 0 where the system has no /proc."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")
