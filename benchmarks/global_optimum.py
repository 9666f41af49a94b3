"""The global optimum of sum rate and energy efficiency, beside three other ways to look for it.

Sum rate of the Rayleigh interference channel: |h_ij|² ~ Exp(1), noise 0.01, Pmax 1 W, all users
alike, every channel to be proved to 0.01 bit. Beside ours, on the same channels in the same run: a
plain branch and bound on the monotone bound (numpy, one core, best boxes first); SLSQP from random
starts (scipy); and geometric programming, at high SINR first, then by condensation. The last two
prove nothing; found means within 0.01 bit of the best of the four. Then the energy efficiency of
four workers under Hata–COST231 with shadowing at 0 dBW, each channel to be proved to 1 %.

``--settings`` adds the shipped scenarios, whose mean gap over 1000 channels is to be at most
0.001. On a GPU a few channels are solved first, untimed: a process loads its kernels once. Seconds
are those of the wall clock. ``--growth`` measures ours at many numbers of users and of
channels instead and fits an exponential and a power law to the seconds.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import os
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import torch
from scipy.optimize import minimize
from torch import Tensor

from feduplink import Scenario, shipped_scenarios
from feduplink.channels import make_channels
from feduplink.lagrangian import ChannelBatch, Prices
from feduplink.optimum import Certificate, certify, find_optimum

_TOLERANCE = 0.01 * math.log(2)
_RELATIVE_TOLERANCE = 0.01
_MEAN_GAP = 1e-3
_NOISE = 0.01
_PLAIN_BATCH = 4096
#: Largest number of boxes of one channel that the plain search keeps.
_PLAIN_MOST = 4_000_000
_STARTS = 10
#: Most rounds of condensation, and the least ln p: nobody is silent in a geometric program.
_CONDENSATIONS = 100
_LEAST_LOG_POWER = -20.0
_GROWTH_USERS = (4, 6, 8, 10, 12)
_GROWTH_CHANNELS = (10, 30, 100, 300, 1000)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--users", type=int, nargs="*", default=[8, 12], help="of the sum rate")
    parser.add_argument("--channels", type=int, default=100, help="of the sum rate")
    parser.add_argument(
        "--settings",
        nargs="*",
        metavar="SCENARIO",
        help="shipped scenarios to prove as well (default: none; without names: all)",
    )
    parser.add_argument("--no-efficiency", action="store_true", help="skip energy efficiency")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--budget", type=float, default=600.0, help="seconds, of each way")
    parser.add_argument("--device", default="cpu", help="cpu or cuda, of ours")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--alone", action="store_true", help="ours only")
    parser.add_argument("--csv", type=Path, help="also write what is printed to this file")
    parser.add_argument("--growth", type=Path, metavar="DIR", help="write growth.csv and .png")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    if options.growth:
        _growth(options)
        return
    if options.device != "cpu":
        _prove_sum_rate(rayleigh_gains(4, 10, options.seed + 1), options)
    rows: list[dict[str, object]] = []
    for row in _rows(options):
        rows.append(row | {"load": round(os.getloadavg()[0], 1)})
        print(json.dumps(rows[-1]), flush=True)
        if options.csv:
            _write(options.csv, rows)


def _rows(options: argparse.Namespace) -> Iterator[dict[str, object]]:
    for users in options.users:
        yield _sum_rate(users, options)
    if not options.no_efficiency:
        yield _energy_efficiency(options)
    if options.settings is not None:
        for name in options.settings or shipped_scenarios():
            yield _setting(name, options)


def _write(file: Path, rows: list[dict[str, object]]) -> None:
    """All rows so far, so that a run that is cut short leaves what it has."""
    columns = list(dict.fromkeys(name for row in rows for name in row))
    with file.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, columns)
        writer.writeheader()
        writer.writerows(rows)


def rayleigh_gains(users: int, channels: int, seed: int) -> Tensor:
    """Gains |h_ij|² over the noise, (N, L, L)."""
    generator = torch.Generator().manual_seed(seed)
    gains = torch.empty(channels, users, users, dtype=torch.float64)
    return gains.exponential_(generator=generator) / _NOISE


def _prove_sum_rate(csi: Tensor, options: argparse.Namespace) -> tuple[Certificate, float, float]:
    """With the seconds of the wall clock and of the processor."""
    csi = csi.to(options.device)
    ones = torch.ones(csi.shape[-1], dtype=torch.float64, device=csi.device)
    own = torch.eye(len(ones), dtype=torch.bool, device=csi.device)
    batch = ChannelBatch(
        direct=csi.diagonal(dim1=-2, dim2=-1).contiguous(),
        cross=csi.masked_fill(own, 0.0),
        pmax_w=ones,
        waterfall=0.023,
        static_power_w=ones,
        amplifier_inefficiency=1.0,
    )
    none = torch.zeros_like(ones)
    start, processor = time.perf_counter(), time.process_time()
    certificate = certify(
        batch,
        Prices(none, ones, none, none),
        budget_s=options.budget,
        gap=_TOLERANCE,
        channel_gap=_TOLERANCE,
    )
    return certificate, time.perf_counter() - start, time.process_time() - processor


def _sum_rate(users: int, options: argparse.Namespace) -> dict[str, object]:
    csi = rayleigh_gains(users, options.channels, options.seed)
    certificate, seconds, processor = _prove_sum_rate(csi, options)
    lower, upper = certificate.lower.cpu().numpy(), certificate.upper.cpu().numpy()
    row: dict[str, object] = {
        "users": users,
        "channels": options.channels,
        "device": options.device,
        "threads": options.threads,
        "seconds": round(seconds, 2),
        "cpu_seconds": round(processor, 2),
        "proved": int((upper - lower <= _TOLERANCE).sum()),
        "boxes": certificate.boxes,
    }
    if options.alone:
        return row
    start = time.perf_counter()
    plain = [plain_search(h, start + options.budget) for h in csi.numpy()]
    row["plain_seconds"] = round(time.perf_counter() - start, 2)
    row["plain_proved"] = sum(proved for _, proved, _ in plain)
    row["plain_boxes"] = sum(boxes for _, _, boxes in plain)
    start = time.perf_counter()
    rng = np.random.default_rng(options.seed)
    local = np.array([_local_search(h, rng) for h in csi.numpy()])
    row["slsqp_seconds"] = round(time.perf_counter() - start, 2)
    start = time.perf_counter()
    geometric = np.array([_geometric_programming(h) for h in csi.numpy()])
    row["gp_seconds"] = round(time.perf_counter() - start, 2)
    searched = np.array([value for value, _, _ in plain])
    found = {"": lower, "plain_": searched, "slsqp_": local, "gp_": geometric}
    best = np.max([*found.values()], axis=0)
    for name, values in found.items():
        row[f"{name}missed"] = int((values < best - _TOLERANCE).sum())
    return row


def plain_search(gains: np.ndarray, deadline: float) -> tuple[float, bool, int]:
    """Best sum rate of one channel, whether it is proved, and how many boxes that took.

    A box [l, u] of powers has at most Σ ln(1 + α_i u_i / (1 + Σ β_ij l_j)); its corner u is tried,
    without those who may be silent, and its longest edge is halved.
    """
    users = len(gains)
    direct, cross = np.diag(gains), gains - np.diag(np.diag(gains))
    low, high = np.zeros((1, users)), np.ones((1, users))
    upper = np.array([np.inf])
    best, boxes = 0.0, 0
    while len(upper) and time.perf_counter() < deadline and len(upper) < _PLAIN_MOST:
        order = np.argpartition(-upper, min(_PLAIN_BATCH, len(upper)) - 1)
        chosen, rest = order[:_PLAIN_BATCH], order[_PLAIN_BATCH:]
        edge = (high[chosen] - low[chosen]).argmax(1)
        rows = np.arange(len(chosen))
        lows, highs = np.repeat(low[chosen], 2, 0), np.repeat(high[chosen], 2, 0)
        middle = (low[chosen][rows, edge] + high[chosen][rows, edge]) / 2
        highs[2 * rows, edge] = middle
        lows[2 * rows + 1, edge] = middle
        bound = np.log1p(direct * highs / (1 + lows @ cross.T)).sum(1)
        tried = np.where(lows > 0, highs, 0.0)
        value = np.log1p(direct * tried / (1 + tried @ cross.T)).sum(1)
        best, boxes = max(best, value.max()), boxes + len(bound)
        low, high = np.concatenate((low[rest], lows)), np.concatenate((high[rest], highs))
        upper = np.concatenate((upper[rest], bound))
        keep = upper > best + _TOLERANCE
        low, high, upper = low[keep], high[keep], upper[keep]
    return float(best), len(upper) == 0, boxes


def _local_search(gains: np.ndarray, rng: np.random.Generator) -> float:
    """The best sum rate that SLSQP finds from random powers."""
    direct, cross = np.diag(gains), gains - np.diag(np.diag(gains))

    def loss(power: np.ndarray) -> tuple[float, np.ndarray]:
        received = 1 + cross @ power
        total = received + direct * power
        slope = direct / total + cross.T @ (1 / total - 1 / received)
        return -np.log(total / received).sum(), -slope

    bounds = [(0.0, 1.0)] * len(direct)
    starts = rng.random((_STARTS, len(direct)))
    found = [minimize(loss, x, jac=True, method="SLSQP", bounds=bounds) for x in starts]
    return max(-float(result.fun) for result in found)


def _geometric_programming(gains: np.ndarray) -> float:
    """The sum rate of successive geometric programs in t = ln p.

    A rate is ln Z_i − ln I_i with posynomials I_i = 1 + Σ β_ij p_j and Z_i = I_i + α_i p_i. With a
    monomial in place of Z_i the problem is a geometric program, convex in t: at high SINR α_i p_i
    (which keeps everybody on the air), then the best monomial at the last solution (condensation,
    Chiang et al. 2007), while that gains anything. It ends at a local optimum.
    """
    direct, cross = np.diag(gains), gains - np.diag(np.diag(gains))

    def solved(tilt: np.ndarray, start: np.ndarray) -> np.ndarray:
        """Where Σ ln I_i(t) − tilt·t is least; ``tilt`` has the monomials' exponents."""

        def loss(t: np.ndarray) -> tuple[float, np.ndarray]:
            power = np.exp(t)
            received = 1 + cross @ power
            return np.log(received).sum() - tilt @ t, power * (cross.T @ (1 / received)) - tilt

        bounds = [(_LEAST_LOG_POWER, 0.0)] * len(start)
        result = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds)
        return np.asarray(result.x)

    def rates(t: np.ndarray) -> float:
        power = np.exp(t)
        return float(np.log1p(direct * power / (1 + cross @ power)).sum())

    t = solved(np.ones(len(direct)), np.zeros(len(direct)))
    value = rates(t)
    for _ in range(_CONDENSATIONS):
        power = np.exp(t)
        total = 1 + cross @ power + direct * power
        t = solved(power * (cross.T @ (1 / total) + direct / total), t)
        gained, value = rates(t) - value, max(value, rates(t))
        if gained < 1e-6:
            break
    return value


def _energy_efficiency(options: argparse.Namespace) -> dict[str, object]:
    scenario = Scenario(
        workers=4,
        channel_model="hata-urban-shadowed",
        objective="energy_efficiency",
        weights="ones",
        rate_min=0,
        ee_min=0,
        pmax_dbw=0,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of workers nearer than Hata's formula knows
        csi = make_channels(scenario, 1000, seed=options.seed).test.to(options.device)
    batch = ChannelBatch.from_scenario(scenario, csi)
    ones = torch.ones(4, dtype=torch.float64, device=csi.device)
    none = torch.zeros_like(ones)
    start, processor = time.perf_counter(), time.process_time()
    prices = Prices(none, none, ones, none)
    first = certify(batch, prices, budget_s=0.0)
    certificate = certify(
        batch,
        prices,
        budget_s=options.budget,
        gap=_RELATIVE_TOLERANCE * float(first.lower.mean()),
        channel_gap=_RELATIVE_TOLERANCE * first.lower,
    )
    relative = (certificate.upper - certificate.lower) / certificate.lower
    return {
        "objective": "energy efficiency",
        "channels": len(csi),
        "device": options.device,
        "threads": options.threads,
        "seconds": round(time.perf_counter() - start, 2),
        "cpu_seconds": round(time.process_time() - processor, 2),
        "proved": int((relative <= _RELATIVE_TOLERANCE * (1 + 1e-9)).sum()),
        "boxes": certificate.boxes,
    }


def _setting(name: str, options: argparse.Namespace) -> dict[str, object]:
    """The multipliers of a shipped scenario, then a proof of how good its best policy is."""
    scenario = Scenario.load(name)
    csi = make_channels(scenario, 1000, seed=options.seed).test
    start, processor = time.perf_counter(), time.process_time()
    optimum = find_optimum(
        scenario, csi, budget_s=options.budget, gap=_MEAN_GAP, device=options.device
    )
    return {
        "setting": name,
        "channels": len(csi),
        "device": options.device,
        "threads": options.threads,
        "seconds": round(time.perf_counter() - start, 2),
        "cpu_seconds": round(time.process_time() - processor, 2),
        "proof_seconds": round(optimum.certificate.seconds, 2),
        "objective": round(optimum.objective, 5),
        "upper_bound": round(optimum.upper_bound, 5),
        "gap": round(optimum.gap, 5),
        "proof_gap": round(optimum.certificate.gap, 5),
        "boxes": optimum.certificate.boxes,
    }


def _growth(options: argparse.Namespace) -> None:
    """Seconds of ours against users, and against channels at 8 users."""
    rows = [("users", users, options.channels) for users in _GROWTH_USERS]
    rows += [("channels", 8, channels) for channels in _GROWTH_CHANNELS]
    measured = []
    for axis, users, channels in rows:
        csi = rayleigh_gains(users, channels, options.seed)
        certificate, seconds, _ = _prove_sum_rate(csi, options)
        measured.append((axis, users, channels, seconds, certificate.boxes))
        print(measured[-1], flush=True)
    options.growth.mkdir(parents=True, exist_ok=True)
    with (options.growth / "global-optimum-growth.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("axis", "users", "channels", "seconds", "boxes"))
        writer.writerows((*row[:3], round(row[3], 3), row[4]) for row in measured)
    figure, axes = plt.subplots(1, 2, figsize=(8, 3.2), layout="constrained")
    for panel, axis, column in zip(axes, ("users", "channels"), (1, 2), strict=True):
        points = np.array([(row[column], row[3]) for row in measured if row[0] == axis])
        x = points[:, 0] if axis == "users" else np.log(points[:, 0])
        slope, start = np.polyfit(x, np.log(points[:, 1]), 1)
        label = f"× {math.exp(slope):.2f} per user" if axis == "users" else f"∝ N^{slope:.2f}"
        panel.plot(points[:, 0], points[:, 1], "o")
        panel.plot(points[:, 0], np.exp(start + slope * x), label=label)
        panel.set(xlabel=axis, ylabel="seconds", yscale="log")
        if axis == "channels":
            panel.set_xscale("log")
        panel.legend(frameon=False)
    figure.savefig(options.growth / "global-optimum-growth.png", dpi=150)


if __name__ == "__main__":
    main()
