"""How much the experiments do: the paper's numbers, or a first look in minutes."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass

from feduplink.federated import LocalWork
from feduplink.federated.tasks.reviews import PAPER_SIZE, WORK, Size


@dataclass(frozen=True)
class Scale:
    """Sizes of all experiments.

    Attributes:
        name: how results call it.
        seeds: independent channels and first weights, where powers are compared.
        channels: in each of the training, validation and test sets.
        verdict_channels: on which it is told whether a policy meets its constraints; more than the
            test channels, which often cannot tell.
        epochs: of ``pdm`` and ``pdg``.
        solved_channels: that ``dual`` and ``pdx`` find their multipliers on.
        proof_s: most seconds for one certificate.
        runs: of an i.i.d. federated task.
        noniid_runs: of a non-i.i.d. one.
        text_runs: of the reviews.
        rounds: of images and air quality; None takes the task's.
        text_rounds: of the reviews; None takes the task's.
        text_size: of the reviews.
        text_work: a worker's work in one round on the reviews.
    """

    name: str
    seeds: int
    channels: int
    verdict_channels: int
    epochs: int
    solved_channels: int
    proof_s: float
    runs: int
    noniid_runs: int
    text_runs: int
    rounds: int | None
    text_rounds: int | None
    text_size: Size
    text_work: LocalWork

    @property
    def first_look(self) -> bool:
        """Whether it is too little for a verdict: everything but the full scale."""
        return self.name != "full"

    @property
    def label(self) -> str:
        """The name and a checksum of all sizes: what is kept under it has exactly these."""
        text = json.dumps(asdict(self), sort_keys=True)
        return f"{self.name}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"


FULL = Scale(
    name="full",
    seeds=4,
    channels=1000,
    verdict_channels=10_000,
    epochs=1000,
    solved_channels=20_000,
    proof_s=300.0,
    runs=10,
    noniid_runs=5,
    text_runs=5,
    rounds=None,
    text_rounds=None,
    text_size=PAPER_SIZE,
    text_work=WORK,
)

QUICK = Scale(
    name="quick",
    seeds=2,
    channels=300,
    verdict_channels=1000,
    epochs=100,
    solved_channels=600,
    proof_s=5.0,
    runs=2,
    noniid_runs=2,
    text_runs=1,
    rounds=30,
    text_rounds=5,
    # A CPU has to do: a smaller network, shorter and fewer reviews.
    text_size=Size(train=2000, test=400, words=2000, length=32, hidden=32),
    text_work=LocalWork(batch_size=20, batches=5, learning_rate=5e-3, clip_norm=5.0, epsilon=1e-5),
)
