"""What learned schedules cost, in time and against the search.

    python benchmarks/learned_schedule.py            # processor time, and 24 channels per setting
    python benchmarks/learned_schedule.py --channels 200 --seed 5

Processor time on one thread of a round of 8 workers alone (median of 200), the same with PyTorch
(interleaved, so that a busy machine slows both), in a batch of 1000, and of the search for 200.
Then time + κ · energy over that of the search on test channels of the seed, the mean over
channels, for other numbers of workers and other cells.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from functools import partial
from unittest import mock

import torch

from feduplink import Scenario
from feduplink.channels import make_channels
from feduplink.scheduling import find_schedules, learned_schedules, shipped_phase_network

WEIGHTS = 39_760
KAPPAS = (0.0, 10.0, 50.0)
SETTINGS = {
    "6 workers": {"workers": 6},
    "default setting": {},
    "12 workers": {"workers": 12},
    "16 workers": {"workers": 16},
    "24 workers": {"workers": 24},
    "32 workers": {"workers": 32},
    "Hata urban, shadowed": {"channel_model": "hata-urban-shadowed"},
    "cell of 2000 m": {"cell_side_m": 2000.0},
    "Pmax -10 dBW": {"pmax_dbw": -10.0},
    "interference x8": {"interference": 8.0},
}


def milliseconds(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return 1e3 * (time.process_time() - start)


def print_times(kappa: float) -> None:
    scenario, network = Scenario(), shipped_phase_network()
    csi, bits = make_channels(scenario, 1000).test, scenario.model_bits(WEIGHTS)

    def learned(first: int, count: int) -> object:
        rounds = csi[first : first + count]
        return learned_schedules(network, scenario, rounds, bits, seconds_per_joule=kappa)

    def in_torch(number: int) -> object:
        with mock.patch("feduplink.scheduling.learned._MAX_SINGLE_ROUNDS", 0):
            return learned(number, 1)

    learned(0, 1), in_torch(0)
    alone, tensors = [], []
    for number in range(200):
        alone.append(milliseconds(partial(learned, number, 1)))
        if number % 10 == 0:
            tensors.append(milliseconds(partial(in_torch, number)))
    batch = milliseconds(lambda: learned(0, 1000)) / 1000
    search = milliseconds(
        lambda: find_schedules(scenario, csi[:200], bits, seconds_per_joule=kappa)
    )
    one, other = statistics.median(alone), statistics.median(tensors)
    print(
        f"| {kappa:g} | {one:.2f} | {min(alone):.2f} | {other:.1f} | {other / one:.1f} | "
        f"{batch:.2f} | {search / 200:.1f} |",
        flush=True,
    )


def print_costs(name: str, fields: dict[str, object], count: int, seed: int) -> None:
    scenario, network = Scenario(**fields), shipped_phase_network()
    count = max(2, int(count * min(1.0, (8 / scenario.workers) ** 1.5)))
    csi, bits = make_channels(scenario, count, seed=seed).test, scenario.model_bits(WEIGHTS)
    ratios = []
    for kappa in KAPPAS:
        found = learned_schedules(network, scenario, csi, bits, seconds_per_joule=kappa)
        cost = found.time_s + kappa * found.energy_j(scenario.static_power)
        best = find_schedules(scenario, csi, bits, seconds_per_joule=kappa).cost
        ratios.append(float((cost / best).mean()))
    print(
        f"| {name} ({count}) | " + " | ".join(f"{ratio:.3f}" for ratio in ratios), "|", flush=True
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--channels", type=int, default=24)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    torch.set_num_threads(1)
    print("| kappa | alone, ms | least | in PyTorch | ratio | of 1000 | search |")
    print("| ---: " * 7 + "|")
    for kappa in KAPPAS:
        print_times(kappa)
    print("\n| cost over the search | " + " | ".join(f"κ = {kappa:g}" for kappa in KAPPAS), "|")
    print("| --- | ---: | ---: | ---: |")
    for name, fields in SETTINGS.items():
        print_costs(name, fields, options.channels, options.seed)


if __name__ == "__main__":
    main()
