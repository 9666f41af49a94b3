"""The largest Lagrangian by brute force, written from the formulas and nothing else."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from feduplink.lagrangian import ChannelBatch, Prices


@dataclass(frozen=True)
class Instance:
    """Channels that share prices: α (N, L), β (N, L, L), prices (L,) each."""

    batch: ChannelBatch
    prices: Prices


def random_instance(seed: int, workers: int, channels: int) -> Instance:
    """Gains over decades, prices over decades and some of them zero, Pmax up to 1 W.

    By turns Pmax and P_c are alike for all workers, or every worker has its own.
    """
    rng = np.random.default_rng(seed)

    def decades(low: float, high: float, *shape: int) -> Tensor:
        return torch.from_numpy(10.0 ** rng.uniform(low, high, shape))

    def thinned(values: Tensor, share: float) -> Tensor:
        return values * torch.from_numpy(rng.random(values.shape) < share)

    # By turns: success, rate or efficiency as the objective, with and without constraints.
    objective, constrained = seed % 3, seed % 2 == 0
    own = seed % 4 == 1
    weight = decades(-1, 0, workers)
    zero = torch.zeros(workers, dtype=torch.float64)
    mu = thinned(decades(-4, 0, workers), 0.7) if constrained else zero
    nu = thinned(decades(-5, -1.5, workers), 0.7) if constrained else zero
    prices = Prices(
        success=weight if objective == 0 else zero,
        rate=mu + weight if objective == 1 else mu,
        efficiency=nu + weight / 30 if objective == 2 else nu,
        activation_cost=mu * decades(-1.5, 0.5, workers) + nu * decades(0, 2.5, workers),
    )
    cross = decades(-2, 5.5, channels, workers, workers)
    cross.diagonal(dim1=-2, dim2=-1).zero_()
    batch = ChannelBatch(
        direct=decades(0, 7, channels, workers),
        cross=cross,
        pmax_w=decades(-4, 0, workers if own else 1).expand(workers),
        waterfall=float(rng.choice([0.023, 0.2, 2.0])),
        static_power_w=decades(-3, -1, workers if own else 1).expand(workers),
        amplifier_inefficiency=float(rng.uniform(0.5, 4)),
    )
    return Instance(batch, prices)


def wide_instance(seed: int, workers: int) -> Instance:
    """One channel with gains over twelve decades, any waterfall, by turns every objective."""
    rng = np.random.default_rng([seed, workers])

    def decades(low: float, high: float, *shape: int) -> Tensor:
        return torch.from_numpy(10.0 ** rng.uniform(low, high, shape))

    zero = torch.zeros(workers, dtype=torch.float64)
    wanted = rng.random((3, workers)) < 0.3
    wanted[seed % 3] = True
    success, rate, efficiency = (
        decades(-2, 0, workers) * torch.from_numpy(wanted[k]) for k in range(3)
    )
    cross = decades(-6, 6, 1, workers, workers)
    cross.diagonal(dim1=-2, dim2=-1).zero_()
    return Instance(
        ChannelBatch(
            direct=decades(-6, 6, 1, workers),
            cross=cross,
            pmax_w=decades(-3, 1, workers),
            waterfall=float(10 ** rng.uniform(-4, 1)),
            static_power_w=decades(-3, 0, workers),
            amplifier_inefficiency=float(rng.uniform(0.5, 4)),
        ),
        Prices(
            success=success if seed % 3 == 0 or seed % 2 else zero,
            rate=rate,
            efficiency=efficiency / 10,
            activation_cost=decades(-3, 0, workers) if seed % 4 < 2 else zero,
        ),
    )


def lagrangian(instance: Instance, channel: int, power: np.ndarray) -> np.ndarray:
    """Σ a PSR + b R + c EE − d over the workers on the air; powers (..., L) in W."""
    batch, prices = instance.batch, instance.prices
    a, b, c, d = (
        getattr(prices, n).numpy() for n in ("success", "rate", "efficiency", "activation_cost")
    )
    alpha, beta = batch.direct[channel].numpy(), batch.cross[channel].numpy()
    sinr = alpha * power / (1 + power @ beta.T)
    with np.errstate(divide="ignore"):
        psr = np.exp(-batch.waterfall / sinr)
    rate = np.log1p(sinr)
    efficiency = rate / (batch.amplifier_inefficiency * power + batch.static_power_w.numpy())
    return np.where(power > 0, a * psr + b * rate + c * efficiency - d, 0.0).sum(-1)


def best_on_grid(instance: Instance, channel: int, per_worker: int) -> float:
    """Best value of a grid over eight decades of power and silence, refined around its tops."""
    workers = instance.batch.direct.shape[-1]
    pmax = instance.batch.pmax_w.numpy()
    logs = np.linspace(-8 * math.log(10), 0.0, per_worker)
    axis = np.concatenate(([0.0], np.exp(logs)))
    shares = np.stack(np.meshgrid(*[axis] * workers, indexing="ij"), axis=-1).reshape(-1, workers)
    powers = pmax * shares
    values = lagrangian(instance, channel, powers)
    tops = powers[np.argpartition(-values, 8)[:8]]
    best = float(values.max())
    moves = np.array(list(itertools.product((-1.0, -0.5, 0.0, 0.5, 1.0), repeat=workers)))
    step = logs[1] - logs[0]
    for top in tops:
        at, width = top, step
        for _ in range(40):
            around = np.minimum(at * np.exp(width * moves), pmax)
            values = lagrangian(instance, channel, around)
            chosen = int(values.argmax())
            best = max(best, float(values[chosen]))
            at, width = around[chosen], width * 0.7
    return best


def best_local_search(instance: Instance, channel: int, starts: int, seed: int) -> float:
    """Best of many local searches by shrinking random moves from random powers and silences."""
    rng = np.random.default_rng(seed)
    workers = instance.batch.direct.shape[-1]
    pmax = instance.batch.pmax_w.numpy()
    power = pmax * 10.0 ** rng.uniform(-7, 0, (starts, workers))
    power[rng.random((starts, workers)) < 0.25] = 0.0
    value = lagrangian(instance, channel, power)
    width = 3.0
    for _ in range(250):
        trial = power * np.exp(
            width * rng.normal(size=power.shape) * (rng.random(power.shape) < 0.6)
        )
        trial = np.where(rng.random(power.shape) < 0.02, 0.0, np.minimum(trial, pmax))
        trial_value = lagrangian(instance, channel, trial)
        better = trial_value > value
        power[better], value[better] = trial[better], trial_value[better]
        width *= 0.97
    return float(value.max())
