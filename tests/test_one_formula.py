"""What computes an SINR or a best power in its own way agrees with ``feduplink.link``.

Such code reuses an interference vector, shares a product of matrices, works in NumPy, in float32 or
with outward rounding. Everything else calls ``link``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from feduplink import Scenario, link
from feduplink.lagrangian import ChannelBatch, Prices, sweep, switched_from_each
from feduplink.optimum import MonotoneBound, PowerBoxes
from feduplink.policies import ChannelFeatures
from feduplink.scheduling import (
    AscentSteps,
    NetworkView,
    PricedRounds,
    best_alone,
    phase_rates,
)

_CHANNELS = 4


def batch_of(csi: Tensor) -> ChannelBatch:
    return ChannelBatch.from_scenario(Scenario(workers=csi.shape[-1], pmax_dbw=0), csi)


def rate_prices(batch: ChannelBatch) -> Prices:
    nothing = torch.zeros_like(batch.pmax_w)
    return Prices(nothing, nothing + 1, nothing, nothing)


class Probe(link.Measure):
    """A measure that is always 0 and compares every SINR that it is asked for."""

    name = "probe"

    def __init__(self, csi: Tensor) -> None:
        self.csi = csi
        self.calls = 0

    def value(self, sinr: Tensor, power: Tensor) -> Tensor:
        torch.testing.assert_close(sinr, link.sinr(self.csi, power), rtol=1e-7, atol=1e-12)
        self.calls += 1
        return torch.zeros_like(sinr)


def probed(search: Callable[[ChannelBatch, Prices, Tensor], object]) -> Callable[..., Tensor]:
    """The SINRs of a search of the Lagrangian, each compared on the way."""

    def sinr(csi: Tensor, power: Tensor) -> Tensor:
        batch, probe = batch_of(csi), Probe(csi)
        others = ((probe, torch.ones_like(batch.pmax_w)),)
        search(batch, replace(rate_prices(batch), others=others), power)
        assert probe.calls
        return batch.sinr(power)

    return sinr


def one_by_one(kernel: Callable[[PricedRounds, Tensor], np.ndarray]) -> Callable[..., Tensor]:
    """A kernel for the arrays of one round, applied to every channel."""

    def sinr(csi: Tensor, power: Tensor) -> Tensor:
        scenario = Scenario(workers=csi.shape[-1], pmax_dbw=0)
        demand = np.ones(power.shape)
        rounds = PricedRounds.one_by_one(scenario, csi, demand, 1.0)
        return torch.from_numpy(
            np.concatenate(
                [kernel(one, p[None].numpy()) for one, p in zip(rounds, power, strict=True)]
            )
        )

    return sinr


def by_phases(csi: Tensor, power: Tensor) -> Tensor:
    return phase_rates(batch_of(csi), power[:, None])[:, 0].expm1()


def by_ascent(csi: Tensor, power: Tensor) -> Tensor:
    batch, phases = batch_of(csi), power[:, None]
    seen = AscentSteps(batch, phases, torch.ones_like(power), 1.0).respond(phases)
    return (seen.signal / seen.interference)[:, 0]


def ascent_of_arrays(rounds: PricedRounds, power: np.ndarray) -> np.ndarray:
    seen = AscentSteps(rounds, power, np.ones(power.shape[-1]), 1.0).respond(power)
    return seen.signal / seen.interference


def by_boxes(csi: Tensor, power: Tensor) -> Tensor:
    """Of boxes that are one point each: one per channel, then many that share a product."""
    batch = batch_of(csi)
    copies = torch.arange(_CHANNELS).repeat_interleave(40)
    found = []
    for channel in (torch.arange(_CHANNELS), copies):
        boxes = PowerBoxes(channel, power[channel], power[channel], channel)
        bounded = MonotoneBound(batch, rate_prices(batch)).on(boxes)
        found.append(bounded.gain * power[channel])
    torch.testing.assert_close(found[1][::40], found[0], rtol=1e-9, atol=0.0)
    return found[0]


def by_pdx(csi: Tensor, power: Tensor) -> Tensor:
    """Each worker's rate is the Lagrangian of a channel in which it is the only one priced."""
    workers = csi.shape[-1]
    batch = batch_of(csi.repeat_interleave(workers, 0))
    nothing = torch.zeros_like(batch.direct)
    prices = Prices(nothing, torch.eye(workers).double().repeat(_CHANNELS, 1), nothing, nothing)
    relative = power.repeat_interleave(workers, 0) / batch.pmax_w
    backoff = torch.where(relative > 0, 1 / relative - 1, 1.0).log()
    gate = torch.where(relative > 0, 1e9, -1e9)
    output = torch.stack((backoff, gate), -1)
    return ChannelFeatures(batch, prices).lagrangian_at_gates(output).view(power.shape).expm1()


def by_phase_network(csi: Tensor, power: Tensor) -> Tensor:
    batch = batch_of(csi)
    ones = torch.ones_like(power)
    view = NetworkView(PricedRounds.from_batch(batch, ones, 1.0), ones)
    # The network's powers on the air are 1e-6 Pmax plus what the attenuation leaves.
    attenuation = torch.where(power > 0, 1 / (power / batch.pmax_w - 1e-6) - 1, 1.0).log()
    logits = torch.stack((attenuation, torch.where(power > 0, 1.0, -1.0)), -1).float()
    logits = logits[:, None].expand(-1, csi.shape[-1], -1, -1)
    # The logarithm of the interference comes second of the features that a step changes.
    interference = view.sight(logits).features[1][:, 0, :, 1].double().exp()
    return batch.direct * power / interference


def by_proof_checker(csi: Tensor, power: Tensor) -> Tensor:
    pytest.importorskip("flint")
    from feduplink.proofs.arithmetic import noise_and_interference_down, noise_and_interference_up

    batch = batch_of(csi)
    cross, p = batch.cross.numpy(), power.numpy()
    high, low = noise_and_interference_up(cross, p), noise_and_interference_down(cross, p)
    found = batch.direct * power / torch.from_numpy(high + low) * 2
    exact = link.interference(batch.cross, power).numpy()
    assert (low <= exact * (1 + 1e-15)).all()
    assert (exact * (1 - 1e-15) <= high).all()
    return found


SINRS: dict[str, tuple[Callable[[Tensor, Tensor], Tensor], float]] = {
    "batch": (lambda csi, power: batch_of(csi).sinr(power), 1e-12),
    "sweep": (probed(sweep), 1e-12),
    "switching": (probed(lambda batch, prices, _: switched_from_each(batch, prices)), 1e-12),
    "phases": (by_phases, 1e-9),
    "phases of arrays": (
        one_by_one(lambda rounds, power: np.expm1(phase_rates(rounds, power))),
        1e-9,
    ),
    "ascent of phases": (by_ascent, 1e-12),
    "ascent of arrays": (one_by_one(ascent_of_arrays), 1e-12),
    "boxes of powers": (by_boxes, 1e-12),
    "network of pdx": (by_pdx, 1e-9),
    "network of phases": (by_phase_network, 1e-4),
    "checker of proofs": (by_proof_checker, 1e-12),
}


@pytest.mark.parametrize(("sinr", "tolerance"), SINRS.values(), ids=SINRS)
@given(seed=st.integers(0, 10**6), workers=st.integers(1, 6))
@settings(max_examples=15)
def test_every_sinr_is_that_of_link(
    sinr: Callable[[Tensor, Tensor], Tensor], tolerance: float, seed: int, workers: int
):
    generator = torch.Generator().manual_seed(seed)
    shape = (_CHANNELS, workers, workers)
    csi = 10 ** (4 * torch.rand(shape, generator=generator, dtype=torch.float64))
    power = 10 ** (-4 * torch.rand(shape[:-1], generator=generator, dtype=torch.float64))
    power = torch.where(torch.rand(power.shape, generator=generator) < 0.3, 0.0, power)
    torch.testing.assert_close(sinr(csi, power), link.sinr(csi, power), rtol=tolerance, atol=1e-12)


def best_of_arrays(batch: ChannelBatch, kappa: float) -> Tensor:
    """One channel as arrays after the other."""
    scenario = Scenario(workers=batch.direct.shape[-1], pmax_dbw=0)
    csi = batch.cross + torch.diag_embed(batch.direct)
    rounds = PricedRounds.one_by_one(scenario, csi, np.ones(batch.direct.shape), kappa)
    return torch.from_numpy(np.stack([best_alone(one, one.kappa[..., 0]) for one in rounds]))


def best_of_proof_checker(batch: ChannelBatch, kappa: float) -> Tensor:
    pytest.importorskip("flint")
    from feduplink.proofs.leaf_bounds import most_efficient_power

    static = (batch.static_power_w + (1 / kappa if kappa else 1e30)).expand_as(batch.direct)
    low, high = torch.zeros_like(static).numpy(), batch.pmax_w.expand_as(static).numpy()
    found = most_efficient_power(batch.direct.numpy(), static.numpy(), 1.0, low, high)
    return torch.from_numpy(found)


BEST_POWERS = {
    "tensors": best_alone,
    "arrays": best_of_arrays,
    "checker of proofs": best_of_proof_checker,
}


@pytest.mark.parametrize("best", BEST_POWERS.values(), ids=BEST_POWERS)
@given(seed=st.integers(0, 10**6), kappa=st.sampled_from([0.0, 0.2, 10.0, 5000.0]))
@settings(max_examples=15)
def test_every_best_power_alone_is_that_of_link(
    best: Callable[[ChannelBatch, float], Tensor], seed: int, kappa: float
):
    generator = torch.Generator().manual_seed(seed)
    exponents = torch.rand(_CHANNELS, 5, 5, generator=generator, dtype=torch.float64)
    batch = batch_of(10 ** (6 * exponents))
    expected = link.power_alone(batch.direct, batch.pmax_w, batch.static_power_w, kappa)
    torch.testing.assert_close(best(batch, kappa), expected, rtol=1e-9, atol=0.0)
