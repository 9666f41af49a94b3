from __future__ import annotations

import csv

from feduplink.experiments import power_histogram
from feduplink.experiments.power_histogram import PowerHistogram

from .made import FAILS, HOLDS, IN_PART, verdicts

FULL, MIDDLE, SILENT = 10e-3, 5e-3, 0.0


def _verdicts(pdm: list[float], pdg: list[float]) -> list[str]:
    return verdicts(
        power_histogram.claims(PowerHistogram(workers=1, powers={"pdm": pdm, "pdg": pdg}))
    )


def test_extremes_against_the_middle():
    assert _verdicts([FULL, FULL, SILENT, SILENT], [MIDDLE] * 4) == [HOLDS, HOLDS]


def test_the_middle_against_extremes():
    assert _verdicts([MIDDLE] * 4, [FULL, FULL, SILENT, SILENT]) == [FAILS, FAILS]


def test_full_power_but_nobody_silent():
    assert _verdicts([FULL, FULL, MIDDLE, MIDDLE], [MIDDLE] * 4)[0] == IN_PART


def test_csv_tells_shares_and_quantiles():
    powers = [SILENT, SILENT, MIDDLE, FULL, FULL]
    text = PowerHistogram(workers=1, powers={"pdm": powers}).to_csv()
    (row,) = csv.DictReader(text.splitlines())
    assert (row["silent"], row["at_pmax"]) == ("0.4000", "0.4000")
    assert (row["quantile_0.5_mw"], row["quantile_0.75_mw"]) == ("5", "10")
