"""A training run that is killed and resumed ends as if nothing had happened."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import torch

from feduplink import (
    GraphPolicy,
    PrimalDualLearning,
    Scenario,
    Trainer,
    TrainingSettings,
    draw_csi,
)
from splits import split_channels

EPOCHS = 120
#: That are seen before the run is killed.
CHECKPOINTS = 5


def new_trainer() -> Trainer:
    torch.set_num_threads(1)
    scenario = Scenario(workers=3)
    channels = draw_csi(scenario, 200, torch.Generator().manual_seed(0))
    settings = TrainingSettings(
        epochs=EPOCHS, batch_size=50, checkpoint_every=1, fresh_channels=True
    )
    policy = GraphPolicy.initialised(scenario)
    data = split_channels(channels[:150], channels[150:], scenario)
    return Trainer(PrimalDualLearning(policy, data, settings))


def _written(checkpoint: Path) -> int | None:
    """When the file was written last, ns; None if never."""
    return checkpoint.stat().st_mtime_ns if checkpoint.exists() else None


def test_killed_run_resumes_to_the_same_weights(tmp_path):
    checkpoint = tmp_path / "checkpoint.safetensors"
    program = (
        "import sys; from pathlib import Path; from test_killed_training import new_trainer; "
        "new_trainer().run(checkpoint=Path(sys.argv[1]))"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program, checkpoint],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path])},
    )
    try:
        deadline = time.monotonic() + 60
        # Every epoch writes the file anew: after some of them the run is killed in the middle.
        for _ in range(CHECKPOINTS):
            written = _written(checkpoint)
            while _written(checkpoint) == written:
                assert process.poll() is None
                assert time.monotonic() < deadline
                time.sleep(0.001)
    finally:
        process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL, "the run was over before it could be killed"

    resumed = new_trainer()
    resumed.resume(checkpoint)
    assert 0 < len(resumed.history) < EPOCHS
    resumed.run(checkpoint=checkpoint)
    uninterrupted = new_trainer()
    uninterrupted.run()

    assert resumed.history == uninterrupted.history
    for name, weights in uninterrupted.trained().state_dict().items():
        assert torch.equal(resumed.trained().state_dict()[name], weights), name
