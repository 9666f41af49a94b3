from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from feduplink import (
    FullPower,
    InputError,
    OpenLoop,
    PerceptronPolicy,
    PowerPolicy,
    RandomPower,
    Scenario,
)
from feduplink.federated import (
    Capacity,
    Examples,
    FederatedData,
    Federation,
    FederationSettings,
    LocalWork,
    Rounds,
    Task,
    UplinkRules,
    everyone,
    measured_capacity,
    presence,
    side_by_side,
    transmit,
)
from feduplink.policies import Ideal
from feduplink.randomness import stream_seed
from plain_federation import PlainFederation
from recorder import Recorder

from .conftest import data_of, mean_loss

SCENARIO = Scenario(workers=3)


def test_one_round_follows_the_formulas():
    """One weight, one batch per worker: Adam's first step is the learning rate, downhill."""
    workers = [
        Examples(torch.ones(k, 1), torch.full((k, 1), target))
        for k, target in ((2, 3.0), (6, -1.0))
    ]

    def start_at_one() -> nn.Module:
        module = nn.Linear(1, 1, bias=False)
        nn.init.ones_(module.weight)
        return module

    task = Task(
        name="one weight",
        model=start_at_one,
        data=lambda _rng: FederatedData.from_workers(
            workers, Examples(torch.ones(1, 1), torch.zeros(1, 1))
        ),
        loss=lambda out, y: (out - y).square()[:, 0],
        metric=lambda out, y: (out - y).abs().mean(),
        work=LocalWork(batch_size=8, learning_rate=0.1),
        rounds=1,
    )
    history = Federation(task, {"ideal": Ideal(SCENARIO)}, Scenario(workers=2)).run()
    # Worker 0 (k = 2) steps up to 1.1, worker 1 (k = 6) down to 0.9.
    expected = (2 * 1.1 + 6 * 0.9) / 8
    run = history.policies["ideal"][0]
    assert run.error == (pytest.approx(expected, abs=1e-6),)
    assert run.arrivals == run.transmitting == (2,)
    assert run.airtime_s == run.energy_j == (None,)
    assert run.sent_bytes == (2 * 8,)


def test_server_averages_the_arriving_models(small_task: Task):
    """Against the plain loop, with the arrivals of the same channels."""

    federation = Federation(
        small_task, {"max": FullPower(SCENARIO)}, SCENARIO, FederationSettings(rounds=8)
    )
    torch.manual_seed(stream_seed(0, "model"))
    plain = PlainFederation(small_task, data_of(small_task), small_task.model())
    channels = Rounds.draw(SCENARIO, everyone(8, 3), seed=0, run=0)
    rules = UplinkRules(SCENARIO, SCENARIO.model_bits(small_task.weights))
    arrived = transmit(FullPower(SCENARIO), channels, rules).arrived
    assert 0 < arrived.sum() < arrived.numel()
    for number in range(8):
        plain.train(federation.round_batches(0, number), arrived[number].tolist())
        federation.run_round(number, at_once=1)
    for name, expected in plain.weights().items():
        torch.testing.assert_close(federation.state.weights[name][0], expected, rtol=0, atol=1e-6)


def test_history_depends_on_the_seed(small_task: Task):
    def once(seed: int):
        policies = {"max": FullPower(SCENARIO), "rand": RandomPower(SCENARIO, seed=1)}
        return Federation(
            small_task, policies, SCENARIO, FederationSettings(runs=2), seed=seed
        ).run()

    assert once(0) == once(0)
    assert once(0) != once(1)


def test_policies_share_data_weights_and_channels(small_task: Task):
    policies = {
        "ideal": Ideal(SCENARIO),
        "again": Ideal(SCENARIO),
        "full": FullPower(SCENARIO),
        "loop": OpenLoop(SCENARIO, target=1e9, fraction=0.0),
    }
    history = Federation(small_task, policies, SCENARIO, FederationSettings(runs=2)).run()
    assert history.policies["ideal"] == history.policies["again"]
    # This open loop is full power by another name.
    assert history.policies["full"] == history.policies["loop"]


def test_runs_have_different_errors_and_airtimes(small_task: Task):
    first, second = (
        Federation(small_task, {"max": FullPower(SCENARIO)}, SCENARIO, FederationSettings(runs=2))
        .run()
        .policies["max"]
    )
    assert first.error != second.error
    assert first.airtime_s != second.airtime_s


def test_every_round_is_reported(small_task: Task):
    recorder = Recorder()
    history = Federation(small_task, {"ideal": Ideal(SCENARIO)}, SCENARIO).run(callbacks=[recorder])
    assert recorder.of("federated learning of blobs") == ["begin", *range(1, 7), "end"]
    errors = [step.figures["ideal"] for step in recorder.steps]
    assert errors == list(history.policies["ideal"][0].error)


class Silent(PowerPolicy):
    """Nobody ever sends."""

    name = "silent"

    def powers(self, csi: Tensor) -> Tensor:
        return torch.zeros(csi.shape[:-1])


def test_published_average_includes_all_workers_in_the_first_round(small_task: Task):
    def errors(aggregation: str) -> tuple[float, ...]:
        settings = FederationSettings(rounds=3, aggregation=aggregation)
        task = replace(small_task, metric=mean_loss)
        (run,) = (
            Federation(task, {"silent": Silent(SCENARIO)}, SCENARIO, settings)
            .run()
            .policies["silent"]
        )
        assert run.arrivals == (0, 0, 0)
        return run.error

    torch.manual_seed(stream_seed(0, "model"))
    first, test = small_task.model(), data_of(small_task).test
    with torch.no_grad():
        loss = mean_loss(first(test.inputs), test.targets).item()
    untrained = pytest.approx(loss, rel=1e-6)
    exact, published = errors("exact"), errors("published")
    assert exact == (untrained,) * 3
    assert published == (published[0],) * 3
    assert published[0] != untrained


def test_workers_leave_and_join(small_task: Task):
    settings = FederationSettings(rounds=6, present=presence(6, 3, {1: {0, 2}, 3: set(), 4: {1}}))
    run = (
        Federation(small_task, {"ideal": Ideal(SCENARIO)}, SCENARIO, settings)
        .run()
        .policies["ideal"][0]
    )
    assert run.arrivals == (3, 2, 2, 0, 1, 1)
    assert run.error[3] == run.error[2]


def test_policy_of_fixed_size_needs_all_workers(small_task: Task):
    policy = PerceptronPolicy(SCENARIO)
    settings = FederationSettings(rounds=2, present=presence(2, 3, {1: {0, 2}}))
    with pytest.raises(InputError, match="present: pdm takes exactly 3 workers"):
        Federation(small_task, {"pdm": policy}, SCENARIO, settings).run()
    Federation(small_task, {"pdm": policy}, SCENARIO, FederationSettings(rounds=1)).run()


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"runs": 0}, r"runs: .*greater than or equal to 1 \(got 0\)"),
        ({"rounds": 0}, r"rounds: .*greater than or equal to 1 \(got 0\)"),
        ({"deadline_s": -1.0}, r"deadline_s: .*greater than 0 \(got -1.0\)"),
        ({"deadline_s": math.inf}, r"deadline_s: .*finite number \(got inf\)"),
        ({"checkpoint_every": 0}, r"checkpoint_every: .*greater than or equal to 1 \(got 0\)"),
        ({"aggregation": "median"}, "aggregation: 'median' is unknown"),
        ({"packet_success": "always"}, "packet_success: 'always' is unknown"),
    ],
)
def test_settings_out_of_range_are_refused(wrong: dict, sentence: str):
    with pytest.raises(InputError, match=sentence):
        FederationSettings(**wrong)


def test_mismatched_input_is_refused(small_task: Task):
    with pytest.raises(InputError, match="data for 3 workers, the scenario has 4"):
        Federation(small_task, {"ideal": Ideal(SCENARIO)}, Scenario(workers=4)).run()
    with pytest.raises(InputError, match="policies: no policy is given"):
        Federation(small_task, {}, SCENARIO).run()
    with pytest.raises(InputError, match="resume: no checkpoint is given"):
        Federation(small_task, {"ideal": Ideal(SCENARIO)}, SCENARIO).run(resume=True)
    with pytest.raises(InputError, match="present: "):
        settings = FederationSettings(rounds=4, present=torch.ones(3, 3, dtype=torch.bool))
        Federation(small_task, {"ideal": Ideal(SCENARIO)}, SCENARIO, settings).run()


@pytest.mark.parametrize("at_once", [1, 2, 3, 4, 7, 8, 100])
def test_every_simulation_trains_exactly_once(at_once: int):
    policies, runs = 3, 4
    seen = []
    for chosen, groups in side_by_side(policies, runs, at_once):
        for simulations in groups:
            indices = list(range(simulations.start, simulations.stop))
            assert len(indices) <= max(at_once, 1)
            assert [simulation % runs for simulation in indices] == list(chosen) * (
                len(indices) // len(chosen)
            )
            seen += indices
    assert sorted(seen) == list(range(policies * runs))


GPU_BYTES = 1_000_000


class PretendedMemory:
    """The memory of a GPU as PyTorch reports it; of a million free bytes, work takes some."""

    TAKEN_BEFORE = 5_000

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.peak = 0
        monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _device: (GPU_BYTES, GPU_BYTES))
        monkeypatch.setattr(torch.cuda, "memory_allocated", lambda _device: self.TAKEN_BEFORE)
        monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda _device: self.peak)
        monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", lambda _device: self.take(0))

    def take(self, size: int) -> None:
        self.peak = self.TAKEN_BEFORE + size


def gpu_capacity(
    monkeypatch: pytest.MonkeyPatch, training: int, measuring: int, load: int | None
) -> Capacity:
    """On a GPU on which ``training`` and ``measuring`` take some bytes."""
    memory = PretendedMemory(monkeypatch)
    return measured_capacity(
        torch.device("cuda"),
        weights_per_simulation=10,
        train=lambda: memory.take(training),
        measure=lambda: memory.take(measuring),
        load=load,
    )


def test_simulations_fill_the_share_of_the_gpu(monkeypatch: pytest.MonkeyPatch):
    assert gpu_capacity(monkeypatch, 60_000, 20_000, None) == Capacity(10, math.inf)
    assert gpu_capacity(monkeypatch, 20_000, 100_000, None) == Capacity(6, math.inf)
    assert gpu_capacity(monkeypatch, 10 * GPU_BYTES, 1, None).simulations == 1


def test_max_load_does_not_depend_on_the_sequences_of_the_trial(
    monkeypatch: pytest.MonkeyPatch,
):
    short = gpu_capacity(monkeypatch, 10_000, 1_000, load=50)
    long = gpu_capacity(monkeypatch, 40_000, 1_000, load=200)
    assert short == long
    assert short.max_load == pytest.approx(0.6 * GPU_BYTES / 200)


def test_simulations_of_sequences_are_bounded_by_weights_and_evaluation(
    monkeypatch: pytest.MonkeyPatch,
):
    by_weights = gpu_capacity(monkeypatch, 10_000, 1, load=50)
    assert by_weights.simulations == int(0.2 * GPU_BYTES / (4 * 8 * 10))
    assert gpu_capacity(monkeypatch, 10_000, 100_000, load=50).simulations == 6


def test_capacity_of_a_cpu_is_that_of_its_cache():
    trial = {"train": lambda: None, "measure": lambda: None, "load": 7}
    cpu = torch.device("cpu")
    assert measured_capacity(cpu, 318_080, **trial) == Capacity(5, math.inf)
    assert measured_capacity(cpu, 10**9, **trial).simulations == 1
