"""Channels drawn per second: geometry, path loss, fading and matched-filter CSI."""

from __future__ import annotations

import argparse
import statistics
import time

import torch

from feduplink import Scenario, draw_csi


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--antennas", type=int, default=10)
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--repetitions", type=int, default=7)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    options = parser.parse_args()
    scenario = Scenario(workers=options.workers, antennas=options.antennas)
    for threads in options.threads:
        torch.set_num_threads(threads)
        generator = torch.Generator().manual_seed(0)
        draw_csi(scenario, options.count, generator)  # warm up
        rates = []
        for _ in range(options.repetitions):
            start = time.perf_counter()
            draw_csi(scenario, options.count, generator)
            rates.append(options.count / (time.perf_counter() - start))
        print(
            f"{threads} thread(s), {options.workers} workers, {options.antennas} antennas: "
            f"{statistics.median(rates):,.0f} channels/s "
            f"(slowest {min(rates):,.0f}, fastest {max(rates):,.0f})"
        )


if __name__ == "__main__":
    main()
