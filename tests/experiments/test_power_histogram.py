from __future__ import annotations

import csv

from feduplink.experiments.power_histogram import PowerHistogram, PowerHistogramResult

from .made import FAILS, HOLDS, IN_PART, verdicts

FULL, MIDDLE, SILENT = 10e-3, 5e-3, 0.0


def _verdicts(pdm: list[float], pdg: list[float]) -> list[str]:
    return verdicts(
        PowerHistogram().claims(PowerHistogramResult.from_powers(1, {"pdm": pdm, "pdg": pdg}))
    )


def test_extremes_against_the_middle():
    assert _verdicts([FULL, FULL, SILENT, SILENT], [MIDDLE] * 4) == [HOLDS, HOLDS]


def test_the_middle_against_extremes():
    assert _verdicts([MIDDLE] * 4, [FULL, FULL, SILENT, SILENT]) == [FAILS, FAILS]


def test_full_power_but_nobody_silent():
    assert _verdicts([FULL, FULL, MIDDLE, MIDDLE], [MIDDLE] * 4)[0] == IN_PART


def test_csv_has_shares_and_quantiles():
    powers = [SILENT, SILENT, MIDDLE, FULL, FULL]
    text = PowerHistogramResult.from_powers(1, {"pdm": powers}).to_csv()
    (row,) = csv.DictReader(text.splitlines())
    assert (row["silent"], row["weak"], row["middle"], row["at_pmax"]) == (
        "0.4",
        "0.4",
        "0.2",
        "0.4",
    )
    assert (row["median_mw"], row["percentile_75_mw"]) == ("5", "10")
