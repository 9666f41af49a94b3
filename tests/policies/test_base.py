"""What holds for every policy, whatever it does."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from feduplink import (
    DualPolicy,
    FullPower,
    GraphPolicy,
    InputError,
    OpenLoop,
    Orthogonal,
    PerceptronPolicy,
    Policy,
    Problem,
    RandomPower,
    Scenario,
    draw_csi,
    judge,
)
from feduplink.lagrangian import DualPoint, Multipliers
from feduplink.policies import (
    PowerPolicy,
    UnrolledPolicy,
    UnselectedOrthogonal,
    UnselectedRandomPower,
    allocate_from_noisy_csi,
    judge_policy,
    shipped_network,
)
from feduplink.registry import POLICIES as REGISTERED
from feduplink.registry import SCHEDULED
from simulated_gpu import GPU, simulated_gpu


class Recorder(PowerPolicy):
    """Transmits at full power and keeps what it was shown."""

    name = "recorder"

    def powers(self, csi):
        self.seen = csi
        return csi.new_full(csi.shape[:-1], self.scenario.max_power)


def test_policy_observes_noisy_csi_and_is_judged_on_true_channels(default_csi):
    noisy = Scenario(csi_noise=1e4)
    policy = Recorder(noisy)
    verdict = judge_policy(policy, default_csi, noisy)
    assert not torch.equal(policy.seen, default_csi)
    assert verdict.objective == judge_policy(policy, default_csi, Scenario()).objective
    assert torch.equal(policy.seen, default_csi)


def test_noise_costs_a_policy_that_relies_on_the_csi(default_csi):
    # About the power that gives each worker alone an SNR of 10; noise hides who is far away.
    def objective(scenario: Scenario) -> float:
        policy = OpenLoop(scenario, target=10.0, fraction=1.0)
        return judge_policy(policy, default_csi, scenario).objective

    assert objective(Scenario(csi_noise=1e8)) < objective(Scenario()) - 0.01


def test_noise_depends_on_the_seed_only(default_csi):
    scenario = Scenario(csi_noise=1e6)
    policy = OpenLoop(scenario, target=10.0, fraction=1.0)
    first, again, other = (
        judge_policy(policy, default_csi, scenario, seed=seed).objective for seed in (1, 1, 2)
    )
    assert first == again != other


def test_tuning_and_evaluation_use_different_noise(default_csi):
    seen = []

    class RecordingOpenLoop(OpenLoop):
        def powers(self, csi):
            seen.append(csi)
            return super().powers(csi)

    scenario = Scenario(csi_noise=1e6)
    policy = RecordingOpenLoop.tuned(scenario, default_csi, seed=1)
    tuned_on = seen[-1]
    judge_policy(policy, default_csi, scenario, seed=1)
    assert not torch.equal(seen[-1], tuned_on)


def test_evaluate_judges_what_the_policy_allocates(default_scenario, default_csi):
    policy = Orthogonal(default_scenario)
    expected = judge(default_scenario, default_csi, policy.allocate(default_csi))
    assert judge_policy(policy, default_csi, default_scenario).as_metrics() == expected.as_metrics()


@pytest.mark.parametrize(
    ("csi", "sentence"),
    [
        (torch.ones(3, 4, 4), "csi: 4 workers; accepted here: exactly 8"),
        (torch.full((3, 8, 8), torch.nan), "csi: contains NaN"),
        (torch.zeros(3, 8, 8), "csi: contains a negative or zero gain"),
        (torch.ones(8, 8), r"power: shape \(8,\)"),
    ],
)
def test_invalid_channels_are_refused(default_scenario, csi, sentence):
    with pytest.raises(InputError, match=f"^{sentence}"):
        judge_policy(FullPower(default_scenario), csi, default_scenario)


def test_missing_device_is_refused(default_csi, default_scenario):
    with pytest.raises(InputError, match="device: 'cuda:99' is not on this machine"):
        allocate_from_noisy_csi(
            FullPower(default_scenario), default_csi, default_scenario, device="cuda:99"
        )


NETWORK = shipped_network()


def _point(scenario: Scenario) -> DualPoint:
    """Multipliers like those of the default setting, and equal weights."""
    constraints = torch.tensor([[2e-3], [5e-5]]).double().expand(2, scenario.workers)
    weight = torch.full((scenario.workers,), 0.125).double()
    return DualPoint(Multipliers(constraints, weight), Problem.from_scenario(scenario).thresholds)


POLICIES: dict[str, Callable[[Scenario], Policy]] = {
    "rand": RandomPower,
    "rand:unselected": UnselectedRandomPower,
    "orth": Orthogonal,
    "orth:unselected": UnselectedOrthogonal,
    "max": FullPower,
    "openloop": lambda scenario: OpenLoop(scenario, target=3.0, fraction=0.8),
    "pdm": PerceptronPolicy.initialised,
    "pdg": GraphPolicy.initialised,
    "dual": lambda scenario: DualPolicy(scenario, _point(scenario)),
    "pdx": lambda scenario: UnrolledPolicy(scenario, NETWORK, _point(scenario)),
}


def test_every_registered_policy_has_its_name_and_is_covered():
    assert {*POLICIES, *SCHEDULED} == set(REGISTERED.names())
    for name in REGISTERED.names():
        assert REGISTERED.find(name).name == name


every_policy = pytest.mark.parametrize("make", POLICIES.values(), ids=POLICIES)
any_size_policy = pytest.mark.parametrize(
    "make", [POLICIES[name] for name in ("orth", "max", "openloop", "pdg", "pdx")]
)


@st.composite
def gains(draw: st.DrawFn) -> Tensor:
    """CSI of 1 to 8 workers, every entry log-uniform over ten decades."""
    workers = draw(st.integers(1, 8))
    exponents = st.lists(st.floats(-3, 7), min_size=workers**2, max_size=workers**2)
    dtype = draw(st.sampled_from([torch.float32, torch.float64]))
    return (10 ** torch.tensor(draw(exponents), dtype=dtype)).view(workers, workers)


@every_policy
@settings(max_examples=40)
@given(csi=gains(), pmax_dbw=st.sampled_from([-40.0, -20.0, 0.0]))
def test_powers_are_finite_and_within_the_limit(make, csi, pmax_dbw):
    scenario = Scenario(workers=len(csi), pmax_dbw=pmax_dbw)
    power = make(scenario).allocate(csi)
    assert power.shape == csi.shape[:-1]
    assert power.dtype == csi.dtype
    assert power.isfinite().all()
    assert (power >= 0).all()
    assert (power <= scenario.max_power.to(power)).all()
    assert not ((power > 0) & (power < 1e-10)).any()


@every_policy
@settings(max_examples=25)
@given(csi=gains(), data=st.data())
def test_each_worker_stays_below_its_own_limit(make, csi, data):
    limits = st.lists(st.floats(-40, 0), min_size=len(csi), max_size=len(csi))
    scenario = Scenario(workers=len(csi), pmax_dbw=data.draw(limits), rate_min=0.0, ee_min=0.0)
    power = make(scenario).allocate(csi)
    assert power.isfinite().all()
    assert ((power >= 0) & (power <= scenario.max_power.to(power))).all()
    # Not because it is cut there: what is learned from is within the limit by itself.
    with torch.no_grad():
        raw = make(scenario).powers(csi[None])
    assert (raw <= scenario.max_power.to(raw) * (1 + 1e-5)).all()


@every_policy
def test_powers_computed_on_a_gpu_are_equal_and_returned_to_the_cpu(make):
    scenario = Scenario(csi_noise=1.0)
    csi = draw_csi(scenario, 20, torch.Generator().manual_seed(5))
    expected = allocate_from_noisy_csi(make(scenario), csi, scenario, device="cpu")
    assert torch.equal(expected, allocate_from_noisy_csi(make(scenario), csi, scenario))
    policy = make(scenario)
    with simulated_gpu() as gpu:
        found = allocate_from_noisy_csi(policy, csi, scenario, device=GPU)
    assert gpu.launches > 0
    assert found.device == csi.device
    torch.testing.assert_close(found, expected)
    assert policy.allocate(csi).device == csi.device  # It is back where it was.


def _listed(scenario: Scenario) -> Scenario:
    """The same scenario, with every constant written once per worker."""
    fields = ("pmax_dbw", "static_power_w", "compute_energy_j_per_bit", "bits_per_weight")
    thresholds = ("rate_min", "ee_min")
    return scenario.replace(
        **{name: [getattr(scenario, name)] * scenario.workers for name in (*fields, *thresholds)}
    )


@pytest.mark.parametrize("name", [name for name in POLICIES if name != "pdm"])
def test_constants_listed_per_worker_equal_a_scalar_constant(name, default_scenario, default_csi):
    """But for pdm, which has an input for each Pmax."""
    listed = _listed(default_scenario)
    one, each = (
        POLICIES[name](scenario).allocate(default_csi) for scenario in (default_scenario, listed)
    )
    torch.testing.assert_close(each, one, rtol=1e-6, atol=0)
    verdicts = [judge(scenario, default_csi, one) for scenario in (default_scenario, listed)]
    assert verdicts[0].as_metrics() == verdicts[1].as_metrics()


def test_open_loop_tuning_does_not_depend_on_listing_equal_constants(default_scenario, default_csi):
    one, each = (
        OpenLoop.tuned(scenario, default_csi[:20]).tensors()["setting"]
        for scenario in (default_scenario, _listed(default_scenario))
    )
    torch.testing.assert_close(each, one)


#: Of eight workers; no two are alike.
PMAX_DBW = (-40.0, -35.0, -30.0, -25.0, -20.0, -15.0, -10.0, 0.0)
STATIC_W = (0.01, 0.02, 0.005, 0.03, 0.015, 0.012, 0.04, 0.008)
PRICES = torch.linspace(1e-3, 4e-3, 8).double()


def _with_prices(scenario: Scenario, order: list[int]) -> Policy:
    constraints = torch.stack((PRICES[order], PRICES[order] / 40))
    weight = torch.linspace(0.05, 0.2, 8).double()[order]
    thresholds = Problem.from_scenario(scenario).thresholds
    return UnrolledPolicy(
        scenario, NETWORK, DualPoint(Multipliers(constraints, weight), thresholds)
    )


@pytest.mark.parametrize("name", ["orth", "max", "openloop", "pdg", "pdx"])
@pytest.mark.parametrize("order", [[7, 6, 5, 4, 3, 2, 1, 0], [3, 0, 2, 1, 6, 7, 4, 5]])
def test_permuting_workers_with_their_constants_permutes_powers(name, order, default_csi):
    def allocated(order: list[int]) -> Tensor:
        scenario = Scenario(
            pmax_dbw=[PMAX_DBW[worker] for worker in order],
            static_power_w=[STATIC_W[worker] for worker in order],
        )
        prices = name == "pdx"
        policy = _with_prices(scenario, order) if prices else POLICIES[name](scenario)
        return policy.allocate(default_csi[:, order][:, :, order])

    here, there = allocated(list(range(8))), allocated(order)
    torch.testing.assert_close(there, here[:, order], rtol=1e-3, atol=1e-9)


@any_size_policy
@settings(max_examples=25)
@given(csi=gains(), random=st.randoms())
def test_permuting_workers_permutes_powers(make, csi, random):
    order = list(range(len(csi)))
    random.shuffle(order)
    policy = make(Scenario())
    torch.testing.assert_close(
        policy.allocate(csi[order][:, order]), policy.allocate(csi)[order], rtol=1e-3, atol=1e-9
    )


@pytest.mark.parametrize("name", ["orth", "max", "openloop", "pdg", "pdx"])
def test_bits_per_worker_do_not_fix_the_number_of_workers(name):
    """Bits and computation concern the upload; no policy depends on them."""
    scenario = Scenario(
        workers=4,
        weights=[1, 2, 3, 4],
        bits_per_weight=[32, 16, 8, 8],
        compute_energy_j_per_bit=[0, 0, 0, 1e-9],
    )
    assert POLICIES[name](scenario).allocate(torch.ones(2, 3, 3)).shape == (2, 3)


@any_size_policy
@pytest.mark.parametrize("workers", [1, 3, 20])
def test_accepts_other_numbers_of_workers_than_its_scenario(make, workers):
    assert make(Scenario(workers=8)).allocate(torch.ones(4, workers, workers)).shape == (4, workers)


@every_policy
def test_leading_dimensions_are_batch_dimensions(make, default_scenario, default_csi):
    policy, again = make(default_scenario), make(default_scenario)
    nested = policy.allocate(default_csi.view(4, 25, 8, 8))
    torch.testing.assert_close(nested.view(100, 8), again.allocate(default_csi))


@every_policy
@pytest.mark.parametrize(
    ("csi", "sentence"),
    [
        (torch.full((8, 8), torch.nan), "csi: contains NaN"),
        (-torch.ones(8, 8), "csi: contains a negative or zero gain"),
        (torch.zeros(8, 8), "csi: contains a negative or zero gain"),
        (torch.ones(8, 7), r"csi: shape \(8, 7\) is not square"),
        (
            torch.ones(8, 8, dtype=torch.int32),
            "csi: .*; accepted: a tensor of float32 or float64",
        ),
    ],
)
def test_invalid_csi_is_refused(make, default_scenario, csi, sentence):
    with pytest.raises(InputError, match=f"^{sentence}"):
        make(default_scenario).allocate(csi)


@pytest.mark.parametrize(
    "policy",
    [
        PerceptronPolicy.initialised(Scenario(workers=4)),
        Orthogonal(Scenario(workers=4, ee_min=[50, 51, 52, 53])),
        RandomPower(Scenario(workers=4, rate_min=[0.1, 0.2, 0.3, 0.4])),
        FullPower(Scenario(workers=4, pmax_dbw=[-20, -20, -20, -30])),
        GraphPolicy.initialised(Scenario(workers=4, static_power_w=[0.01, 0.01, 0.02, 0.02])),
    ],
    ids=lambda policy: policy.name,
)
def test_policy_of_fixed_size_refuses_other_numbers_of_workers(policy):
    with pytest.raises(InputError, match=r"^csi: 5 workers; accepted here: exactly 4"):
        policy.allocate(torch.ones(5, 5))
