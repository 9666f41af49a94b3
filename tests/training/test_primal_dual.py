from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from feduplink import (
    GraphPolicy,
    InputError,
    PerceptronPolicy,
    Problem,
    Scenario,
    TrainingSettings,
    draw_csi,
    judge,
    link,
)
from feduplink.channels import Channels
from feduplink.link import PacketSuccess, SeparableMeasure
from feduplink.policies import (
    GRAPH_HIDDEN,
    NeuralPolicy,
    allocate_from_noisy_csi,
    judge_policy,
)
from feduplink.problem import Constraint, ProportionalFairness, WeightedSum
from feduplink.training import (
    Expectations,
    Preset,
    PrimalDualLearning,
    PrimalDualState,
    Trainer,
    draw_subset,
    primal_dual_step,
    subset_powers,
)
from link.own_measures import AveragePower, Sinr
from recorder import Stop, StopAt
from splits import split_channels

# Presets


class OwnPolicy(NeuralPolicy):
    name = "own"
    learning_rate = 0.0625

    def powers(self, csi):
        return csi.diagonal(dim1=-2, dim2=-1)


CELL = Scenario(workers=3)
PAPER = Preset.for_policy(GraphPolicy, "paper")


def test_preset_ours_has_the_learning_rate_of_the_policy():
    for kind in (PerceptronPolicy, GraphPolicy, OwnPolicy):
        ours, paper = Preset.for_policy(kind), Preset.for_policy(kind, "paper")
        assert ours.settings.learning_rate == kind.learning_rate
        assert paper.settings.learning_rate == 1e-3
        assert type(ours.architecture) is type(paper.architecture) is kind.architecture_type
        assert (ours.architecture.silence_w, paper.architecture.silence_w) == (1e-10, 1e-20)


def test_explicit_values_override_those_of_the_preset_and_are_checked():
    settings = Preset.for_policy(PerceptronPolicy, "paper").settings.replace(margin=0.1)
    assert (settings.margin, settings.primal_dual_step) == (0.1, 1e-4)
    with pytest.raises(InputError, match=r"^margin: .*less than or equal to 1"):
        Preset.for_policy(PerceptronPolicy, "paper").settings.replace(margin=2)


def test_published_pdg_follows_the_equation_of_the_paper():
    """Z ← φ(Ĥ Z Θ) from Z = Pmax 1, with Ĥ = D^(−1/2) H D^(−1/2) and D = diag(H 1)."""
    policy = GraphPolicy.initialised(CELL, 0, PAPER.architecture).double()
    assert [tuple(weights.shape) for weights in policy.parameters()] == [
        (fan_in, fan_out)
        for fan_in, fan_out in zip((1, *GRAPH_HIDDEN), (*GRAPH_HIDDEN, 1), strict=True)
    ]
    csi = draw_csi(CELL, 5, torch.Generator().manual_seed(0)).double()
    for h, power in zip(csi, policy.powers(csi), strict=True):
        scale = torch.diag((h @ torch.ones(3).double()) ** -0.5)
        z = torch.full((3, 1), CELL.max_power, dtype=torch.float64)
        *hidden, last = policy.parameters()
        for theta in hidden:
            z = torch.nn.functional.elu(scale @ h @ scale @ z @ theta)
        expected = CELL.max_power * torch.sigmoid(scale @ h @ scale @ z @ last)
        torch.testing.assert_close(power, expected[:, 0])


def test_first_update_follows_the_formula_of_the_paper():
    """Raw units, no margin, r and e from the first batch: only y and its multiplier move."""
    policy = GraphPolicy.initialised(CELL, 0, PAPER.architecture)
    csi = draw_csi(CELL, 20, torch.Generator().manual_seed(0))
    algorithm = PrimalDualLearning(policy, split_channels(csi, csi), PAPER.settings)
    rate, efficiency = algorithm.training_problem.constraints
    assert rate.threshold.tolist() == [0.7] * 3
    assert efficiency.threshold.tolist() == [55.0] * 3

    optimizer = torch.optim.SGD(policy.parameters(), lr=0.0)
    problem = Problem.from_scenario(CELL)
    after = primal_dual_step(policy, optimizer, problem, csi, None, PAPER.settings)
    power = policy.allocate(csi)
    reached = (csi.diagonal(dim1=-2, dim2=-1) * power) / (
        1 + (csi * (1 - torch.eye(3)) @ power[..., None])[..., 0]
    )
    rates = reached.log1p()
    torch.testing.assert_close(after.required[0], rates.mean(0).clamp_min(0.7), rtol=1e-4, atol=0)
    efficiencies = (rates / (power + 0.01)).mean(0)
    torch.testing.assert_close(after.required[1], efficiencies.clamp_min(55), rtol=1e-4, atol=0)
    start = torch.exp(-0.023 / reached).mean(0)
    gain = after.achieved - start
    torch.testing.assert_close(gain, 1e-4 * CELL.worker_weights.float(), rtol=0, atol=1e-6)


def test_silence_threshold_of_the_paper_is_lower():
    for name, sent in (("paper", True), ("ours", False)):
        architecture = Preset.for_policy(PerceptronPolicy, name).architecture
        policy = PerceptronPolicy.initialised(CELL, 0, architecture)
        with torch.no_grad():
            policy.layers[-1].weight.zero_()
            policy.layers[-1].bias.fill_(-25.0)  # 0.01 W · e^-25 = 1.4e-13 W
        for power in (policy.allocate(torch.ones(1, 3, 3)), policy(torch.ones(1, 3, 3))):
            assert bool((power > 0).all()) is sent


# Variables

PAIR = Scenario(workers=2, weights=(0.75, 0.25), rate_min=(0.5, 0.6), ee_min=(30.0, 40.0))
PAIR_PROBLEM = Problem.from_scenario(PAIR)
PAIR_CSI = torch.tensor([[[100.0, 10.0], [5.0, 50.0]], [[200.0, 20.0], [10.0, 25.0]]])


def expectations(objective: list[float], constraints: list[list[float]]) -> Expectations:
    return Expectations(
        torch.tensor(objective, dtype=torch.float64), torch.tensor(constraints, dtype=torch.float64)
    )


def test_expectations_are_means_over_the_batch_and_over_active_rounds():
    power = torch.tensor([[0.01, 0.02], [0.005, 0.0]])
    expected = Expectations.estimate(PAIR_PROBLEM, link.upload(PAIR_CSI, power, PAIR))
    sinr = link.sinr(PAIR_CSI, power)
    rate = torch.log(1 + sinr)
    psr = torch.exp(-0.023 / sinr)
    torch.testing.assert_close(expected.objective, psr.mean(0))
    torch.testing.assert_close(
        expected.constraints,
        torch.stack(
            (
                torch.stack((rate[:, 0].mean(), rate[0, 1])),
                torch.stack(((rate / (power + 0.01))[:, 0].mean(), rate[0, 1] / 0.03)),
            )
        ),
    )


def test_state_starts_at_first_estimates_and_thresholds():
    first = expectations([0.6, 0.9], [[9.0, 9.0], [99.0, 99.0]])
    state = PrimalDualState.start(PAIR_PROBLEM, first)
    assert state.achieved.tolist() == [0.6, 0.9]
    assert state.required.tolist() == [[0.5, 0.6], [30.0, 40.0]]
    assert state.objective_multiplier.tolist() == [0, 0]
    assert state.constraint_multiplier.tolist() == [[0, 0], [0, 0]]


def test_two_updates_follow_the_formula():
    """y += γ(∇g − λy); c = max(c − γ λ, c0); λ = max(λ − γ(E − x), 0), with γ = 0.1."""
    start = PrimalDualState.start(PAIR_PROBLEM, expectations([0.6, 0.9], [[0, 0], [0, 0]]))

    first = start.updated(PAIR_PROBLEM, expectations([0.6, 0.8], [[0.4, 0.7], [35.0, 10.0]]), 0.1)
    # y: 0.6 + 0.1·0.75, 0.9 + 0.1·0.25; λy: 0.1·(0.675 − 0.6), 0.1·(0.925 − 0.8).
    assert first.achieved.tolist() == pytest.approx([0.675, 0.925])
    assert first.objective_multiplier.tolist() == pytest.approx([0.0075, 0.0125])
    # Only the first rate (0.4 under 0.5) and the second efficiency (10 under 40) are short.
    assert first.required.tolist() == [[0.5, 0.6], [30.0, 40.0]]
    assert first.constraint_multiplier.flatten().tolist() == pytest.approx([0.01, 0, 0, 3.0])

    second = first.updated(PAIR_PROBLEM, expectations([0.7, 0.8], [[0.45, 0.7], [35.0, 90.0]]), 0.1)
    achieved = 0.675 + 0.1 * (0.75 - 0.0075), 0.925 + 0.1 * (0.25 - 0.0125)
    assert second.achieved.tolist() == pytest.approx(achieved)
    assert second.objective_multiplier.tolist() == pytest.approx(
        [0.0075 - 0.1 * (0.7 - achieved[0]), 0.0125 - 0.1 * (0.8 - achieved[1])]
    )
    # 0.01 − 0.1·(0.45 − 0.5); 3 − 0.1·(90 − 40) stops at zero.
    assert second.constraint_multiplier.flatten().tolist() == pytest.approx([0.015, 0, 0, 0])


def test_required_does_not_fall_below_the_thresholds():
    high = PrimalDualState(
        achieved=torch.zeros(2),
        required=torch.tensor([[0.8, 0.61], [30.0, 40.0]]),
        objective_multiplier=torch.zeros(2),
        constraint_multiplier=torch.ones(2, 2),
    )
    after = high.updated(PAIR_PROBLEM, expectations([0, 0], [[1, 1], [50, 50]]), 0.1)
    assert after.required.flatten().tolist() == pytest.approx([0.7, 0.6, 30.0, 40.0])


def test_achieved_follows_the_gradient_of_the_utility():
    expected = expectations([0.5, 0.2], [[1, 1], [50, 50]])
    for utility, gradient in ((WeightedSum, [0.75, 0.25]), (ProportionalFairness, [1.5, 1.25])):
        problem = Problem(
            PAIR_PROBLEM.objective, utility(PAIR.worker_weights), PAIR_PROBLEM.constraints
        )
        after = PrimalDualState.start(problem, expected).updated(problem, expected, 0.1)
        assert after.achieved.tolist() == pytest.approx(
            [0.5 + 0.1 * gradient[0], 0.2 + 0.1 * gradient[1]]
        )


def test_lagrangian_ignores_silent_workers():
    state = PrimalDualState(
        achieved=torch.zeros(2),
        required=torch.zeros(2, 2),
        objective_multiplier=torch.tensor([2.0, 3.0]),
        constraint_multiplier=torch.tensor([[4.0, 5.0], [6.0, 7.0]]),
    )
    expected = expectations([0.5, 0.0], [[0.7, torch.nan], [50.0, torch.nan]])
    assert state.lagrangian(expected).item() == pytest.approx(2 * 0.5 + 4 * 0.7 + 6 * 50)
    after = state.updated(PAIR_PROBLEM, expected, 0.1)
    assert after.constraint_multiplier[:, 1].tolist() == [5.0, 7.0]


def test_gradient_is_finite_when_a_worker_is_silent_throughout_the_batch():
    power = torch.tensor([[0.01, 0.0], [0.01, 0.0]], requires_grad=True)
    expected = Expectations.estimate(PAIR_PROBLEM, link.upload(PAIR_CSI, power, PAIR))
    state = PrimalDualState(torch.zeros(2), torch.zeros(2, 2), torch.ones(2), torch.ones(2, 2))
    state.lagrangian(expected).backward()
    assert power.grad.isfinite().all()
    assert (power.grad[:, 0] != 0).all()


def test_upper_limit_over_all_rounds_follows_the_formula():
    """E[p] of 7.5 and 10 mW against 5 and 12 mW: the first worker pays, by γ (7.5 − 5) mW."""
    limit = torch.tensor([0.005, 0.012], dtype=torch.float64)
    problem = Problem(
        PAIR_PROBLEM.objective, PAIR_PROBLEM.utility, (Constraint.below(AveragePower(), limit),)
    )
    power = torch.tensor([[0.01, 0.02], [0.005, 0.0]], dtype=torch.float64, requires_grad=True)
    expected = Expectations.estimate(problem, link.upload(PAIR_CSI.double(), power, PAIR))
    assert expected.constraints.flatten().tolist() == pytest.approx([-0.0075, -0.01])
    state = PrimalDualState.start(problem, expected)
    assert state.required.flatten().tolist() == [-0.005, -0.012]
    after = state.updated(problem, expected, 0.1)
    assert after.constraint_multiplier.flatten().tolist() == pytest.approx([0.1 * 0.0025, 0.0])
    # And the Lagrangian falls with its power, in silent rounds too.
    (after.constraint_multiplier * expected.constraints).sum().backward()
    assert power.grad.flatten().tolist() == pytest.approx([-0.000125, 0.0, -0.000125, 0.0])


# Subsets of workers

FIVE = Scenario(workers=5, weights=(1.0, 2.0, 3.0, 4.0, 5.0))
FAST = TrainingSettings(epochs=3, batch_size=16, learning_rate=0.01)


@pytest.fixture(scope="module")
def five() -> Channels:
    csi = draw_csi(FIVE, 80, torch.Generator().manual_seed(0))
    return split_channels(csi[:40], csi[40:])


def subset_trainer(five: Channels, subset_workers: int | None, seed: int = 0) -> Trainer:
    settings = FAST.replace(subset_workers=subset_workers)
    return Trainer(PrimalDualLearning(GraphPolicy.initialised(FIVE, seed), five, settings))


def step(csi: Tensor, subset: Tensor, state: PrimalDualState | None) -> PrimalDualState:
    policy = GraphPolicy.initialised(FIVE)
    optimizer = torch.optim.SGD(policy.parameters(), lr=0.0)
    problem = Problem.from_scenario(FIVE)
    return primal_dual_step(policy, optimizer, problem, csi, state, FAST, subset=subset)


def test_subset_of_all_workers_equals_the_whole_cell(five):
    whole, subset, smaller = (subset_trainer(five, size) for size in (None, 5, 3))
    for trainer in (whole, subset, smaller):
        trainer.run()
    weights = whole.trained().state_dict()
    torch.testing.assert_close(subset.trained().state_dict(), weights)
    assert subset.best.objective == pytest.approx(whole.best.objective)
    assert smaller.best.objective != pytest.approx(whole.best.objective)


def test_subset_has_no_interference_from_others(five):
    """SINRs are those of the principal submatrix of H."""
    policy = GraphPolicy.initialised(FIVE)
    subset = torch.tensor([0, 2, 3])
    power = subset_powers(policy, five.training, subset)
    assert (power[:, [1, 4]] == 0).all()
    part = five.training[:, subset][:, :, subset]
    torch.testing.assert_close(
        link.sinr(five.training, power)[:, subset], link.sinr(part, policy(part))
    )


def test_only_variables_of_the_subset_are_updated(five):
    """Multipliers above 0 and no expectation at its target: every variable of a worker moves."""
    before = PrimalDualState(
        achieved=torch.full((5,), 2.0),
        required=torch.full((2, 5), 200.0),
        objective_multiplier=torch.ones(5),
        constraint_multiplier=torch.ones(2, 5),
    )
    after = step(five.training, torch.tensor([1, 4]), before).tensors()
    for name, old in before.tensors().items():
        moved = (after[name] != old).reshape(-1, 5)
        assert moved[:, [1, 4]].all(), name
        assert not moved[:, [0, 2, 3]].any(), name


def test_step_size_is_inverse_to_the_subset_size(five):
    """y moves by γ (L/K) (∇g(y) − λ_y); here ∇g = ω and λ_y = 0."""
    zero, zeros = torch.zeros(5), torch.zeros(2, 5)
    for subset in ([0, 1], [0, 1, 2], [0, 1, 2, 3, 4]):
        state = PrimalDualState(zero, zeros, zero, zeros)
        moved = step(five.training, torch.tensor(subset), state).achieved[0]
        assert moved == pytest.approx(FAST.primal_dual_step * 5 / len(subset) * 1.0)


def test_workers_outside_the_first_subset_start_at_the_mean_of_those_in_it():
    expected = Expectations(
        torch.tensor([0.6, 0.0, 0.8]), torch.tensor([[1.0, torch.nan, 3.0], [60.0, torch.nan, 50]])
    )
    problem = Problem.from_scenario(Scenario(workers=3))
    subset = torch.tensor([0, 2])
    state = PrimalDualState.start(problem, expected, "first-batch", subset)
    assert state.achieved.tolist() == pytest.approx([0.6, 0.7, 0.8])
    assert state.required.flatten().tolist() == pytest.approx([1, 2, 3, 60, 55, 50])


def test_the_order_of_the_subset_does_not_matter(five):
    csi, order = five.training, torch.tensor([2, 0, 1])
    subset = torch.tensor([0, 2, 3])
    start = step(csi, subset, None)
    one, other = step(csi, subset, start), step(csi, subset[order], start)
    for name, tensor in one.tensors().items():
        torch.testing.assert_close(other.tensors()[name], tensor, msg=name)


def test_every_worker_is_drawn_equally_often():
    generator = torch.Generator().manual_seed(0)
    subsets = torch.stack([draw_subset(2, 5, generator) for _ in range(2000)])
    assert (subsets[:, 0] < subsets[:, 1]).all()
    # 800 expected, standard deviation 22.
    assert ((subsets.flatten().bincount(minlength=5) - 800).abs() < 100).all()


def test_resumed_run_draws_the_same_subsets(five, tmp_path):
    whole, stopped, resumed = (subset_trainer(five, 2, seed) for seed in (0, 0, 9))
    with pytest.raises(Stop):
        stopped.run([StopAt(2, "epochs")])
    stopped.save(tmp_path / "checkpoint.safetensors")
    resumed.resume(tmp_path / "checkpoint.safetensors")
    resumed.run()
    whole.run()
    assert resumed.history == whole.history


@pytest.mark.parametrize(
    ("policy", "size", "sentence"),
    [
        (PerceptronPolicy(FIVE), 3, r"^subset_workers: pdm takes exactly 5 workers; accepted"),
        (GraphPolicy(FIVE), 6, r"^subset_workers: 6 of 5 workers; accepted: none, or 1 to 5"),
    ],
)
def test_invalid_subset_sizes_are_refused(five, policy, size, sentence):
    with pytest.raises(InputError, match=sentence):
        PrimalDualLearning(policy, five, FAST.replace(subset_workers=size))


# Identity of the problem

CELL = Scenario(workers=3)
CELL_PROBLEM = Problem.from_scenario(CELL)
RATE, EFFICIENCY = CELL_PROBLEM.constraints


class SinrAbove(SeparableMeasure):
    """Differs between levels."""

    name = "above"

    def __init__(self, level: float) -> None:
        self.level = level

    def value(self, sinr: Tensor, power: Tensor) -> Tensor:
        return sinr - self.level


class SinrBelow(SinrAbove):
    """Another class with the same name and attributes."""

    def value(self, sinr: Tensor, power: Tensor) -> Tensor:
        return self.level - sinr


def utility(weights: list[float]) -> WeightedSum:
    return WeightedSum(torch.tensor(weights, dtype=torch.float64))


def with_rate(constraint: Constraint) -> Problem:
    return replace(CELL_PROBLEM, constraints=(constraint, EFFICIENCY))


OWN = replace(CELL_PROBLEM, objective=SinrAbove(1.0))
OTHERS = {
    "objective": replace(CELL_PROBLEM, objective=RATE.measure),
    "own objective": OWN,
    "utility": replace(CELL_PROBLEM, utility=ProportionalFairness(CELL.worker_weights)),
    "weights": replace(CELL_PROBLEM, utility=utility([0.2, 0.3, 0.5])),
    "threshold": with_rate(Constraint.at_least(RATE.measure, RATE.limit / 2)),
    "upper limit": with_rate(Constraint.below(RATE.measure, -RATE.limit)),
    "whom it is for": with_rate(
        Constraint.at_least(RATE.measure, RATE.limit, torch.tensor([True, True, False]))
    ),
    "measure of a constraint": with_rate(Constraint.at_least(Sinr(), RATE.limit)),
    "constants of the objective": replace(CELL_PROBLEM, objective=PacketSuccess(0.5)),
    "no constraint on the efficiency": replace(CELL_PROBLEM, constraints=(RATE,)),
}


def trainer(problem: Problem) -> Trainer:
    data = split_channels(torch.ones(4, 3, 3), torch.ones(4, 3, 3))
    settings = Preset.for_policy(GraphPolicy).settings.replace(epochs=1)
    policy = GraphPolicy.initialised(CELL)
    return Trainer(PrimalDualLearning(policy, data, settings, problem=problem))


@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS)
def test_run_is_not_resumed_with_another_problem(other: Problem, tmp_path: Path):
    trainer(CELL_PROBLEM).save(tmp_path / "checkpoint.safetensors")
    with pytest.raises(InputError, match=r"made with another problem \((objective|utility|constr)"):
        trainer(other).resume(tmp_path / "checkpoint.safetensors")


@pytest.mark.parametrize("one", [CELL_PROBLEM, *OTHERS.values()], ids=["scenario", *OTHERS])
def test_run_is_resumed_with_an_equal_problem(one: Problem, tmp_path: Path):
    saved, resumed = trainer(one), trainer(copy.deepcopy(one))
    saved.run()
    saved.save(tmp_path / "checkpoint.safetensors")
    resumed.resume(tmp_path / "checkpoint.safetensors")
    assert resumed.history == saved.history


def test_measures_of_different_settings_or_classes_are_different_problems(tmp_path: Path):
    trainer(OWN).save(tmp_path / "checkpoint.safetensors")
    for objective in (SinrAbove(2.0), SinrBelow(1.0)):
        with pytest.raises(InputError, match=r"made with another problem \(objective\)"):
            trainer(replace(CELL_PROBLEM, objective=objective)).resume(
                tmp_path / "checkpoint.safetensors"
            )


# Learning


TINY = TrainingSettings(epochs=6, batch_size=16, learning_rate=0.01)


@pytest.fixture(scope="module")
def data() -> Channels:
    csi = draw_csi(CELL, 80, torch.Generator().manual_seed(0))
    return split_channels(csi[:40], csi[40:], CELL)


def learning(data: Channels, **changes) -> PrimalDualLearning:
    given = {"policy": GraphPolicy.initialised(CELL), "settings": TINY, **changes}
    return PrimalDualLearning(channels=data, **given)


def test_fresh_channels_are_refused_for_recorded_channels(data):
    recorded = split_channels(data.training, data.validation)
    with pytest.raises(InputError, match=r"^fresh_channels: the channels are recorded"):
        learning(recorded, settings=TINY.replace(fresh_channels=True))


@pytest.mark.parametrize(
    ("csi", "sentence"),
    [
        (torch.full((20, 3, 3), torch.nan), "csi: contains NaN"),
        (torch.zeros(20, 3, 3), "csi: contains a negative or zero gain"),
        (torch.ones(20, 4, 4), "csi: 4 workers; accepted here: exactly 3"),
    ],
)
def test_invalid_channels_are_refused_before_training(data, csi, sentence):
    with pytest.raises(InputError, match=f"^{sentence}"):
        learning(split_channels(csi, csi))


def test_a_step_ascends_the_lagrangian(data):
    """The first step has no multipliers to climb by, the second has."""
    policy, problem = GraphPolicy.initialised(CELL), CELL_PROBLEM
    optimizer = torch.optim.SGD(policy.parameters(), lr=100.0)  # multipliers begin tiny

    def weights() -> Tensor:
        return torch.cat([w.detach().flatten() for w in policy.parameters()])

    start = weights()
    state = primal_dual_step(policy, optimizer, problem, data.training, None, TINY)
    assert torch.equal(weights(), start)

    def lagrangian() -> float:
        expected = Expectations.estimate(
            problem, link.upload(data.training, policy(data.training), policy.scenario)
        )
        return state.lagrangian(expected).item()

    before = lagrangian()
    primal_dual_step(policy, optimizer, problem, data.training, state, TINY)
    assert lagrangian() > before


def test_the_policy_ends_with_the_weights_of_the_best_epoch(data):
    trainer = Trainer(learning(data))
    best = trainer.run()
    powers = trainer.trained().allocate(data.validation)
    verdict = judge(CELL, data.validation, powers)
    assert verdict.objective == best.objective
    assert verdict.violation == best.violation


def test_training_uses_the_csi_noise_of_the_scenario(data):
    """The validation has noise of the same variance as an evaluation, and a stream of its own."""
    noisy = CELL.replace(csi_noise=1e5)
    trainer = Trainer(learning(data, policy=GraphPolicy.initialised(noisy)))
    best = trainer.run()
    clean = Trainer(learning(data)).run()
    power = allocate_from_noisy_csi(
        trainer.trained(), data.validation, noisy, noise="validation-noise"
    )
    assert best.objective == pytest.approx(judge(noisy, data.validation, power).objective)
    verdict = judge_policy(trainer.trained(), data.validation, noisy)
    assert best.objective != verdict.objective
    assert best.objective == pytest.approx(verdict.objective, abs=0.05)
    assert best.objective != pytest.approx(clean.objective)
    without_noise = judge_policy(trainer.trained(), data.validation, CELL)
    assert best.objective != pytest.approx(without_noise.objective)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
@pytest.mark.parametrize("kind", [GraphPolicy, PerceptronPolicy])
@pytest.mark.parametrize("fresh_channels", [False, True])
def test_training_runs_on_the_device_of_the_policy(data, tmp_path, kind, fresh_channels):
    settings = TINY.replace(fresh_channels=fresh_channels)

    def trainer(device: str) -> Trainer:
        return Trainer(learning(data, policy=kind.initialised(CELL).to(device), settings=settings))

    here, there, resumed = trainer("cpu"), trainer("cuda"), trainer("cuda")
    here.run()
    with pytest.raises(Stop):
        there.run([StopAt(3, "epochs")])
    there.save(tmp_path / "checkpoint.safetensors")
    resumed.resume(tmp_path / "checkpoint.safetensors")
    resumed.run()
    assert all(weights.is_cuda for weights in resumed.algorithm.network.parameters())
    for one, other in zip(here.history, resumed.history, strict=True):
        assert one.objective == pytest.approx(other.objective, rel=1e-3)


def test_checkpoint_of_another_policy_class_is_refused(data, tmp_path):
    class Mine(GraphPolicy):
        """A policy with the name of the one that it derives from."""

    checkpoint = tmp_path / "checkpoint.safetensors"
    Trainer(learning(data, policy=Mine.initialised(CELL))).save(checkpoint)
    with pytest.raises(InputError, match="made with another policy"):
        Trainer(learning(data)).resume(checkpoint)
    Trainer(learning(data, policy=Mine.initialised(CELL, 1))).resume(checkpoint)
