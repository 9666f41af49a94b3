"""A federation that was interrupted ends as if nothing had happened."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from feduplink import FullPower, InputError, RandomPower, Scenario
from feduplink.federated import (
    Federation,
    FederationSettings,
    LocalWork,
    Task,
    presence,
)
from feduplink.policies import Ideal, UnselectedRandomPower
from feduplink.storage.tensorfile import TensorFile, read_tensors, write_tensors
from recorder import Recorder, Stop, StopAt

from .conftest import blob_task, mean_loss

SCENARIO = Scenario(workers=3)


def test_interrupted_and_resumed_run_equals_an_uninterrupted_one(small_task: Task, tmp_path: Path):
    def policies():
        return {"ideal": Ideal(SCENARIO), "rand": RandomPower(SCENARIO)}

    settings = FederationSettings(runs=2, rounds=9, checkpoint_every=3)
    file = tmp_path / "state.safetensors"
    expected = Federation(small_task, policies(), SCENARIO, settings).run()
    with pytest.raises(Stop):
        Federation(small_task, policies(), SCENARIO, settings).run(
            callbacks=[StopAt(4, "rounds")], checkpoint=file
        )
    used = policies()
    used["rand"].allocate(torch.rand(5, 3, 3) + 1)  # a generator that has moved on
    recorder = Recorder()
    resumed = Federation(small_task, used, SCENARIO, settings).run(
        callbacks=[recorder], checkpoint=file, resume=True
    )
    assert recorder.steps[0].done == 4
    assert resumed == expected


def test_resumed_model_is_bitwise_equal(tmp_path: Path):
    """Gradients are clipped at a norm that is summed in the order of the parameters."""
    work = LocalWork(batch_size=5, clip_norm=0.05, learning_rate=0.02)
    task = replace(blob_task(work), metric=mean_loss)
    names = [name for name, _ in task.model().named_parameters()]
    assert names != sorted(names)

    def fresh() -> Federation:
        return Federation(task, {"ideal": Ideal(SCENARIO)}, SCENARIO, FederationSettings(rounds=8))

    undisturbed, killed, resumed = fresh(), fresh(), fresh()
    for number in range(8):
        undisturbed.run_round(number, at_once=1)
    for number in range(2):
        killed.run_round(number, at_once=1)
    killed.save(tmp_path / "state.safetensors")
    resumed.resume(tmp_path / "state.safetensors")
    for number in range(2, 8):
        resumed.run_round(number, at_once=1)
    assert resumed.history() == undisturbed.history()


def test_a_checkpoint_of_another_model_is_refused(small_task: Task, tmp_path: Path):
    file = tmp_path / "state.safetensors"
    Federation(small_task, {"ideal": Ideal(SCENARIO)}, SCENARIO).run(checkpoint=file)
    other = replace(small_task, model=lambda: nn.Linear(2, 3))
    with pytest.raises(InputError, match="made with another model"):
        Federation(other, {"ideal": Ideal(SCENARIO)}, SCENARIO).run(checkpoint=file, resume=True)


def test_a_checkpoint_of_another_comparison_is_refused(small_task: Task, tmp_path: Path):
    file = tmp_path / "state.safetensors"
    settings = FederationSettings(rounds=2)
    policies = {"ideal": Ideal(SCENARIO), "rand": RandomPower(SCENARIO)}
    Federation(small_task, policies, SCENARIO, settings).run(checkpoint=file)

    def other_data(rng):
        data = small_task.data(rng)
        return replace(data, test=replace(data.test, inputs=data.test.inputs + 1))

    def relu_network() -> nn.Module:
        return nn.Sequential(nn.Linear(2, 6), nn.ReLU(), nn.Linear(6, 3))

    def scaled_network() -> nn.Module:
        module = small_task.model()
        with torch.no_grad():
            module[0].weight.mul_(2)
        return module

    def wider_network() -> nn.Module:
        return nn.Sequential(nn.Linear(2, 7), nn.Tanh(), nn.Linear(7, 3))

    others: list[tuple[str, dict[str, Any]]] = [
        (r"model \(layers\)", {"task": replace(small_task, model=relu_network)}),
        (r"model \(weights\)", {"task": replace(small_task, model=scaled_network)}),
        (r"model \(weights\)", {"task": replace(small_task, model=wider_network)}),
        (
            r"loss \(settings\)",
            {
                "task": replace(
                    small_task, loss=nn.CrossEntropyLoss(reduction="none", label_smoothing=0.1)
                )
            },
        ),
        (
            r"loss \(name, settings\)",
            {"task": replace(small_task, loss=nn.MultiMarginLoss(reduction="none"))},
        ),
        (
            r"metric \(name\)",
            {
                "task": replace(
                    small_task, metric=lambda out, y: (out.argmin(-1) != y).double().mean()
                )
            },
        ),
        ("seed", {"seed": 1}),
        ("rounds", {"settings": settings.replace(rounds=3)}),
        ("aggregation", {"settings": settings.replace(aggregation="published")}),
        ("deadline", {"settings": settings.replace(deadline_s=9.0)}),
        ("packet success", {"settings": settings.replace(packet_success="every-phase")}),
        ("presence", {"settings": settings.replace(present=presence(2, 3, {1: {0, 2}}))}),
        ("choice of policies", {"policies": {"max": FullPower(SCENARIO)}}),
        ("policy rand", {"policies": {**policies, "rand": UnselectedRandomPower(SCENARIO)}}),
        ("policy ideal", {"policies": {**policies, "ideal": FullPower(SCENARIO)}}),
        ("scenario", {"scenario": Scenario(workers=3, pmax_dbw=-10)}),
        ("local work", {"task": replace(small_task, work=replace(small_task.work, batches=1))}),
        ("data set", {"task": replace(small_task, data=other_data)}),
    ]
    for field, change in others:
        arguments = {
            "task": small_task,
            "policies": policies,
            "scenario": SCENARIO,
            "settings": settings,
            **change,
        }
        with pytest.raises(InputError, match=f"another {field}"):
            Federation(**arguments).run(checkpoint=file, resume=True)


def test_a_checkpoint_of_another_format_is_refused(small_task: Task, tmp_path: Path):
    file, kind = tmp_path / "state.safetensors", "federated checkpoint"
    Federation(small_task, {"ideal": Ideal(SCENARIO)}, SCENARIO).run(checkpoint=file)
    made = read_tensors(file, kind)
    write_tensors(file, kind, TensorFile(made.tensors, {**made.header, "format": 0}))
    with pytest.raises(InputError, match="made with another format"):
        Federation(small_task, {"ideal": Ideal(SCENARIO)}, SCENARIO).run(
            checkpoint=file, resume=True
        )


def test_identity_of_a_policy_contains_its_class_not_its_code(small_task: Task, tmp_path: Path):
    class Half(FullPower):
        """Named as the one it derives from."""

        share = 0.5

        def powers(self, csi: torch.Tensor) -> torch.Tensor:
            return super().powers(csi) * self.share

    def run(policy: type[FullPower], *, resume: bool) -> None:
        policies = {"max": policy(SCENARIO)}
        Federation(small_task, policies, SCENARIO).run(checkpoint=file, resume=resume)

    file = tmp_path / "state.safetensors"
    run(Half, resume=False)
    with pytest.raises(InputError, match=r"made with another policy max \(name\)"):
        run(FullPower, resume=True)
    Half.share = 1.0
    run(Half, resume=True)


VICTIM = """
import sys, time
from pathlib import Path
from feduplink import FullPower, Scenario
from feduplink.federated import FederationSettings, Federation, load_task
from feduplink.policies import Ideal
from feduplink.progress import Callback
import torch
torch.set_num_threads(1)

class Slowly(Callback):
    def on_step(self, work, step):
        print(step.done, flush=True)
        time.sleep(float(sys.argv[2]))

scenario = Scenario(workers=4)
checkpoint = Path(sys.argv[1])
federation = Federation(
    load_task("digits", workers=4),
    {"ideal": Ideal(scenario), "max": FullPower(scenario)},
    scenario,
    FederationSettings(runs=2, rounds=8, checkpoint_every=2),
)
history = federation.run([Slowly()], checkpoint, resume=checkpoint.exists())
print(history.to_json())
"""


@pytest.mark.slow
def test_killed_in_the_middle_and_resumed_gives_the_same_curve(tmp_path: Path):
    def start(file: Path, pause: float) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", VICTIM, str(file), str(pause)]
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)

    undisturbed, _ = (whole := start(tmp_path / "a.safetensors", 0.0)).communicate(timeout=120)
    assert whole.returncode == 0

    file = tmp_path / "b.safetensors"
    victim = start(file, 0.2)
    assert victim.stdout is not None
    while int(victim.stdout.readline()) < 5:
        pass
    os.kill(victim.pid, signal.SIGKILL)
    assert victim.wait(timeout=30) == -signal.SIGKILL
    time.sleep(0.1)
    assert file.exists()

    resumed, _ = (second := start(file, 0.0)).communicate(timeout=120)
    assert second.returncode == 0
    assert resumed.splitlines()[0] == "5"
    assert resumed.splitlines()[-1] == undisturbed.splitlines()[-1]
