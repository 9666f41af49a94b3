from __future__ import annotations

from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from feduplink.proofs.arithmetic import (
    down,
    noise_and_interference_down,
    noise_and_interference_up,
    up,
)

SIZES = st.floats(1e-50, 1e50)


@given(SIZES, SIZES)
def test_outward_rounding_encloses_the_exact_result(a: float, b: float):
    x, y = np.array(a), np.array(b)
    for rounded, exact in (
        (x + y, Fraction(a) + Fraction(b)),
        (x * y, Fraction(a) * Fraction(b)),
        (x / y, Fraction(a) / Fraction(b)),
    ):
        assert Fraction(float(down(rounded))) < exact < Fraction(float(up(rounded)))


@given(st.integers(0, 2**32 - 1), st.integers(1, 6))
def test_outward_rounding_encloses_noise_and_interference(seed: int, workers: int):
    rng = np.random.default_rng(seed)
    cross = 10 ** rng.uniform(-8, 8, (2, workers, workers))
    power = 10 ** rng.uniform(-8, 2, (2, workers))
    low, high = noise_and_interference_down(cross, power), noise_and_interference_up(cross, power)
    for n in range(2):
        for i in range(workers):
            exact = 1 + sum(
                Fraction(float(gain)) * Fraction(float(p))
                for gain, p in zip(cross[n, i], power[n], strict=True)
            )
            assert Fraction(float(low[n, i])) <= exact <= Fraction(float(high[n, i]))
            assert high[n, i] - low[n, i] <= 1e-14 * high[n, i]
