from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path

import pytest

from feduplink import FederatedComparison, FullPower, save_policy
from feduplink.cli import command_line
from feduplink.federated import FederatedHistory, RunHistory, load_task
from feduplink.scenario import Scenario
from feduplink.workflows.federation import default_target

Run = Callable[..., tuple[int, str, str]]

QUICK = ("--task", "digits", "--workers", 4, "--rounds", 3)


def _results(directory: Path) -> dict:
    """What two runs with the same seed agree in."""
    metrics = json.loads((directory / "metrics.json").read_text())
    del metrics["provenance"]
    return metrics


@pytest.fixture
def run(capsys, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("FEDUPLINK_DATA", raising=False)

    def run(*words: object) -> tuple[int, str, str]:
        status = command_line.main([str(word) for word in words])
        streams = capsys.readouterr()
        return status, streams.out, streams.err

    return run


def test_federate_writes_what_it_says(run: Run, tmp_path: Path):
    status, out, _ = run("federate", *QUICK, "--policies", "ideal,max,openloop", "--runs", 2)
    assert status == 0
    directory = tmp_path / "runs/federate"
    assert {path.name for path in directory.iterdir()} == {
        "arrivals.png",
        "arrivals.svg",
        "error.png",
        "error.svg",
        "federated.md",
        "federated.safetensors",
        "result.safetensors",
        "metrics.json",
    }
    metrics = json.loads((directory / "metrics.json").read_text())
    assert metrics["task"] == "digits"
    assert list(metrics["policies"]) == ["ideal", "max", "openloop"]
    for name, entry in metrics["policies"].items():
        assert len(entry["runs"]) == 2
        for fields in entry["runs"]:
            assert all(len(fields[f]) == 3 for f in ("error", "arrivals", "airtime_s", "energy_j"))
            assert (fields["airtime_s"][0] is None) == (name == "ideal")
    assert "openloop" in out


def test_resume_needs_the_word_and_gives_the_same(run: Run, tmp_path: Path):
    words = ("federate", *QUICK, "--policies", "ideal,rand")
    assert run(*words)[0] == 0
    before = _results(tmp_path / "runs/federate")
    status, _, err = run(*words)
    assert status == 2
    assert "already contains a federated comparison" in err
    assert run(*words, "--resume")[0] == 0
    assert _results(tmp_path / "runs/federate") == before


def test_workers_come_and_go_and_uploads_have_a_deadline(run: Run, tmp_path: Path):
    status, _, _ = run(
        "federate", *QUICK, "--policies", "ideal,max", "--present", "1:0,2;2:3", "--deadline", 5
    )
    assert status == 0
    metrics = json.loads((tmp_path / "runs/federate/metrics.json").read_text())
    assert metrics["policies"]["ideal"]["runs"][0]["arrivals"] == [4, 2, 1]
    assert max(metrics["policies"]["max"]["runs"][0]["airtime_s"]) <= 5
    assert metrics["policies"]["max"]["runs"][0]["transmitting"] == [4, 2, 1]


def test_a_policy_made_for_another_scenario_is_said(run: Run, tmp_path: Path):
    save_policy(FullPower(Scenario(workers=4, objective="rate")), tmp_path / "saved")
    status, _, err = run("federate", *QUICK, "--policies", "openloop,saved")
    assert status == 0
    sentence = "was made for another scenario: objective rate (here psr)"
    assert f"max of saved {sentence}" in err
    metrics = json.loads((tmp_path / "runs/federate/metrics.json").read_text())
    assert metrics["made_for"] == {"max": {"objective": ["rate", "psr"]}}
    assert f"max {sentence}" in (tmp_path / "runs/federate/federated.md").read_text()


def _first_run(directory: Path, policy: str) -> dict:
    metrics = json.loads((directory / "metrics.json").read_text())
    return metrics["policies"][policy]["runs"][0]


def test_both_readings_of_rand_by_name(run: Run, tmp_path: Path):
    assert run("federate", *QUICK, "--policies", "rand,rand:unselected")[0] == 0
    directory = tmp_path / "runs/federate"
    assert _first_run(directory, "rand:unselected")["transmitting"] == [4, 4, 4]
    assert sum(_first_run(directory, "rand")["transmitting"]) < 12


@pytest.mark.parametrize("access", ["tdma", "ofdma"])
def test_orthogonal_access_and_the_price_of_a_joule(run: Run, tmp_path: Path, access: str):
    words = ("federate", *QUICK, "--policies", access)
    assert run(*words, "--out", "fast")[0] == 0
    assert run(*words, "--out", "frugal", "--kappa", 1000)[0] == 0
    fast, frugal = (_first_run(tmp_path / name, access) for name in ("fast", "frugal"))
    # The weakest, whom everyone may wait for, sends at Pmax either way.
    pairs = zip(fast["airtime_s"], frugal["airtime_s"], strict=True)
    assert all(a <= b * (1 + 1e-9) for a, b in pairs)
    assert all(a > b for a, b in zip(fast["energy_j"], frugal["energy_j"], strict=True))
    for directory, kappa in (("fast", 0.0), ("frugal", 1000.0)):
        metrics = json.loads((tmp_path / directory / "metrics.json").read_text())
        assert metrics["kappa_s_per_j"] == kappa


def test_arrivals_by_every_phase_are_more(run: Run, tmp_path: Path):
    """At full power most interference is over before the weakest have sent their bits."""
    words = ("federate", "--task", "digits", "--rounds", 10, "--policies", "max")
    arrivals = {}
    for rule in ("worst-phase", "every-phase"):
        assert run(*words, "--packet-success", rule, "--out", rule)[0] == 0
        metrics = json.loads((tmp_path / rule / "metrics.json").read_text())
        assert metrics["packet_success"] == rule
        arrivals[rule] = _first_run(tmp_path / rule, "max")["arrivals"]
    pairs = list(zip(arrivals["worst-phase"], arrivals["every-phase"], strict=True))
    assert all(worst <= every for worst, every in pairs)
    assert any(worst < every for worst, every in pairs)


def test_every_worker_may_have_its_own_radio(run: Run, tmp_path: Path):
    options = ("--pmax-dbw=-20,-25,-30,-20", "--bits-per-weight", "32,16,16,8")
    words = ("federate", *QUICK, "--policies", "max,tdma", *options)
    assert run(*words)[0] == 0
    metrics = json.loads((tmp_path / "runs/federate/metrics.json").read_text())
    assert metrics["scenario"]["pmax_dbw"] == [-20, -25, -30, -20]
    weights = sum(w.numel() for w in load_task("digits", workers=4).model().parameters())
    sent = round((72 * weights + 4 * 32) / 8)
    assert _first_run(tmp_path / "runs/federate", "tdma")["sent_bytes"] == [sent] * 3
    refusal = run(*words, "--present", "1:0,1", "--out", "other")[2]
    assert "max takes exactly 4 workers" in refusal


def test_the_target_is_the_one_given(run: Run, tmp_path: Path):
    words = ("federate", *QUICK, "--policies", "ideal", "--target")
    assert run(*words, 1.5)[0] == 0
    metrics = json.loads((tmp_path / "runs/federate/metrics.json").read_text())
    assert metrics["target_error"] == 1.5
    assert metrics["policies"]["ideal"]["median_rounds_to_target"] == 1


def test_models_that_diverged_do_not_set_the_target(tmp_path: Path):
    def history(*errors: float) -> FederatedHistory:
        runs = {f"{n}": (constant_run(error),) for n, error in enumerate(errors)}
        return FederatedHistory("task", "error", runs)

    assert default_target(history(math.nan, 0.5)) == pytest.approx(0.6)
    assert default_target(history(0.5, math.inf)) == pytest.approx(0.6)
    lost = history(math.nan, math.inf)
    target = default_target(lost)
    assert target == 0
    FederatedComparison(lost, Scenario(), target, {}, ()).save(tmp_path)
    metrics = json.loads((tmp_path / "metrics.json").read_text())
    assert metrics["policies"]["0"]["final_error"] is None
    assert metrics["policies"]["0"]["median_rounds_to_target"] is None


def constant_run(error: float) -> RunHistory:
    return RunHistory((error,) * 3, (1,) * 3, (1,) * 3, (1.0,) * 3, (1.0,) * 3, (1,) * 3)


def test_noisy_data_weighs_by_quality(run: Run, tmp_path: Path):
    words = ("federate", *QUICK, "--policies", "ideal", "--partition", "gaussian")
    assert run(*words)[0] == 0
    metrics = json.loads((tmp_path / "runs/federate/metrics.json").read_text())
    assert max(metrics["scenario"]["weights"]) == pytest.approx(7.389, abs=1e-3)
    assert run(*words, "--weights", "data", "--out", "asked")[0] == 0
    metrics = json.loads((tmp_path / "asked/metrics.json").read_text())
    assert metrics["scenario"]["weights"] == "data"


OUTSIDE = """
import torch
from torch import nn
from feduplink.federated import Examples, FederatedData, LocalWork, Task
from feduplink.federated import ExactAverage
from feduplink import PowerPolicy

class Late(PowerPolicy):
    name = "late"
    has_state = True

    def reset(self):
        self.rounds = 0

    def powers(self, csi):
        silent = self.rounds <= 3
        return torch.zeros(csi.shape[:-1]) if silent else 0.01 * torch.ones(csi.shape[:-1])

    def step(self, csi, feedback=None, *, present=None, bits=None):
        self.rounds += 1
        assert (feedback is None) == (self.rounds == 1)
        return super().step(csi, feedback, present=present, bits=bits)

def signs(*, workers):
    def draw(rng):
        def some(count):
            x = torch.tensor(rng.normal(size=(count, 2))).float()
            return Examples(x, (x[:, 0] > 0).long())
        return FederatedData.from_workers([some(20) for _ in range(workers)], some(100))
    return Task(
        name="signs", model=lambda: nn.Linear(2, 2), data=draw,
        loss=nn.CrossEntropyLoss(reduction="none"),
        metric=lambda out, y: (out.argmax(-1) != y).float().mean(),
        work=LocalWork(batch_size=5, learning_rate=0.05), rounds=9,
    )

class Halfway(ExactAverage):
    def initial_state(self, model):
        return {"rounds": torch.zeros(())}

    def aggregate(self, model, local, arrivals, state):
        state["rounds"] = state["rounds"] + 1
        average = super().aggregate(model, local, arrivals, {})
        return {name: (weight + average[name]) / 2 for name, weight in model.items()}
"""


def test_a_task_and_an_average_from_outside(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "outside_of_it.py").write_text(OUTSIDE)
    monkeypatch.syspath_prepend(tmp_path)
    words = ("federate", "--task", "outside_of_it:signs", "--workers", 3, "--policies", "ideal")
    own = (*words, "--aggregation", "outside_of_it:Halfway")
    assert run(*words, "--out", "exact")[0] == 0
    assert run(*own, "--out", "own")[0] == 0
    exact, halfway = (_first_run(tmp_path / name, "ideal")["error"] for name in ("exact", "own"))
    assert len(exact) == len(halfway) == 9
    assert exact != halfway
    metrics = _results(tmp_path / "own")
    assert metrics["task"] == "signs"
    assert metrics["aggregation"] == "outside_of_it:Halfway"
    assert metrics["partition"] is None
    assert run(*own, "--out", "own", "--resume")[0] == 0
    assert _results(tmp_path / "own") == metrics
    refusal = run(*words, "--out", "own", "--resume")[2]
    assert "made with another aggregation (name, state)" in refusal


def test_a_policy_with_a_state_from_outside(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "outside_of_it.py").write_text(OUTSIDE)
    monkeypatch.syspath_prepend(tmp_path)
    words = ("federate", "--task", "outside_of_it:signs", "--workers", 3)
    assert run(*words, "--policies", "outside_of_it:Late,ideal")[0] == 0
    directory = tmp_path / "runs/federate"
    assert _first_run(directory, "late")["transmitting"] == [0] * 3 + [3] * 6
    assert _first_run(directory, "ideal")["arrivals"] == [3] * 9


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--task", "cifar"), "task: 'cifar' is unknown"),
        (("--task", "os:getcwd"), "task: os:getcwd cannot be called with workers=N"),
        (("--data", "here"), "the task digits has no option directory"),
        (("--partition", "odd"), "partition: 'odd' is unknown; accepted: iid, gaussian, dirichlet"),
        (("--aggregation", "median"), "aggregation: 'median' is unknown"),
        (("--aggregation", "os:getcwd"), "aggregation: os:getcwd is a str; accepted: an Agg"),
        (("--task", "mnist"), "feduplink data --fetch mnist"),
        (("--policies", "nobody"), "'nobody'"),
        (("--deadline", "-1"), "deadline: Input should be greater than 0"),
        (("--deadline", "inf"), "deadline: Input should be a finite number"),
        (("--target", "nan"), "target: Input should be a finite number"),
        (("--target", "0"), "target: Input should be greater than 0"),
        (("--present", "9:0"), "present: '9:0' is not accepted"),
        (("--present", "x"), "present: 'x' is not accepted"),
        (("--present", "1:0;1:2"), "present: '1:0;1:2' is not accepted"),
        (("--device", "abacus"), "device: 'abacus'"),
        (("--kappa", "-1"), "kappa: Input should be greater than or equal to 0"),
        (("--kappa", "inf"), "kappa: Input should be a finite number"),
        (("--packet-success", "luck"), "packet_success"),
        (("--no-selection",), "--no-selection"),
        (("--resume",), "does not exist"),
    ],
)
def test_bad_input_is_one_sentence_and_writes_nothing(run: Run, tmp_path: Path, words, sentence):
    status, out, err = run("federate", *QUICK, *words)
    assert status == 2
    assert out == ""
    assert sentence in err
    assert err.count("\n") == 1
    assert not (tmp_path / "runs").exists()


def test_data_lists_sets_licences_and_sources(run: Run):
    status, out, _ = run("data")
    assert status == 0
    for word in ("digits", "mnist", "airquality", "imdb", "glove", "CC BY 4.0", "missing"):
        assert word in out


def test_data_names_a_damaged_set(run: Run, tmp_path: Path):
    file = tmp_path / "sets/airquality/AirQualityUCI.csv"
    file.parent.mkdir(parents=True)
    file.write_text("no table")
    assert "here" in run("data", "--data", "sets")[1]
    status, out, err = run("data", "--data", "sets", "--verify")
    assert status == 2
    assert "checksum differs" in out
    assert "checksum of airquality" in err


def test_fetching_needs_a_name_and_a_place(run: Run):
    assert "'cifar' is unknown" in run("data", "--fetch", "cifar", "--data", "x")[2]
    assert "no directory was given; accepted with --fetch" in run("data", "--fetch", "mnist")[2]
