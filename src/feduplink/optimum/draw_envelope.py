"""The smallest concave function above the inverse of a worker's draw, as a function of t = ln p."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from feduplink import link

#: Steps of the search for the tangent point.
_BISECTIONS = 14


@dataclass(frozen=True)
class DrawEnvelope:
    """The smallest concave function above q(t) = 1 / (μ_a e^t + P_c) on [low, high] of t = ln p.

    q falls, concave up to μ_a e^t = P_c and convex beyond. The envelope is q up to ``touch``,
    then a line to the end of q or just above it.
    """

    static_power_w: Tensor
    amplifier_inefficiency: float
    touch: Tensor
    touch_value: Tensor
    slope: Tensor

    @classmethod
    def on_interval(
        cls, static_power_w: Tensor, amplifier_inefficiency: float, low: Tensor, high: Tensor
    ) -> DrawEnvelope:
        """The envelope on [low, high], (M, L) each, for P_c (L,)."""

        def q(t: Tensor) -> tuple[Tensor, Tensor]:
            return link.inverse_draw(t.exp(), static_power_w, amplifier_inefficiency)[:2]

        end = q(high)[0]
        inflection = (static_power_w / amplifier_inefficiency).log()
        concave = high <= inflection
        touch, beyond = low, torch.minimum(high, inflection).maximum(low)
        # With little power everywhere, q is concave everywhere.
        for _ in range(0 if bool(concave.all()) else _BISECTIONS):
            middle = (touch + beyond) / 2
            value, slope = q(middle)
            above = value + slope * (high - middle) >= end
            touch, beyond = torch.where(above, middle, touch), torch.where(above, beyond, middle)
        touch = torch.where(concave, high, touch)
        value, tangent = q(touch)
        # The tangent passes above the end of q; where ``low`` is already too close for that, the
        # chord does. The steeper one would cut q.
        run = high - touch
        chord = torch.where(run > 1e-12, (end - value) / run.clamp_min(1e-12), tangent)
        return cls(
            static_power_w, amplifier_inefficiency, touch, value, torch.maximum(tangent, chord)
        )

    def take(self, index: Tensor) -> DrawEnvelope:
        """Those of some boxes, by mask or index."""
        return replace(
            self,
            touch=self.touch[index],
            touch_value=self.touch_value[index],
            slope=self.slope[index],
        )

    def at(self, t: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Value, slope and second derivative at ``t``."""
        q, slope, bend = link.inverse_draw(
            t.exp(), self.static_power_w, self.amplifier_inefficiency
        )
        # From the touching point on, that of the line: where the line is a chord, q falls faster.
        on_line = t >= self.touch
        return (
            torch.where(on_line, self.touch_value + self.slope * (t - self.touch), q),
            torch.where(on_line, self.slope, slope),
            torch.where(on_line, 0.0, bend),
        )
