"""How a training run goes."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from feduplink.errors import InputError
from feduplink.scenario import first_problem

#: Learning rates of the policies' weights (Adam) in the authors' runs.
LEARNING_RATES = {"pdg": 5e-4, "pdm": 1e-4}


class TrainingSettings(BaseModel):
    """Hyperparameters of primal–dual learning.

    The defaults are those of the paper's runs, but for two. The paper's step of 1e-4 makes the
    objective's multiplier an oscillator with a period of 2π/1e-4 = 63,000 steps, six times a
    run: it never gets where it should; ours is 1e-3. And the paper stops after 100 epochs
    without improvement; the multipliers swing more slowly than that, and a run that looks settled
    may still gain a lot, so that by default all epochs are run.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    epochs: int = Field(1000, ge=1, le=10**6, description="most passes over the training set")
    batch_size: int = Field(100, ge=1, le=10**6, description="channels in a batch")
    learning_rate: float = Field(5e-4, gt=0, le=1, description="Adam's step for the weights")
    primal_dual_step: float = Field(
        1e-3, gt=0, le=1, description="step of the auxiliary variables and the multipliers"
    )
    margin: float = Field(
        0.05,
        ge=0,
        le=1,
        description="share by which training aims above the thresholds: 1000 channels estimate "
        "a worker's expectation with a standard error of 1 to 2 %",
    )
    weight_decay: float = Field(1e-6, ge=0, le=1, description="Adam's weight decay")
    clip_norm: float = Field(5.0, gt=0, le=1e6, description="largest norm of the gradient")
    patience: int = Field(
        1000,
        ge=1,
        le=10**6,
        description="epochs without improvement before stopping, counted "
        "from the first feasible one",
    )
    fresh_channels: bool = Field(False, description="draw new training channels for every batch")
    checkpoint_every: int = Field(20, ge=1, le=10**6, description="epochs between checkpoints")

    def __init__(self, /, **fields: Any) -> None:
        try:
            super().__init__(**fields)
        except ValidationError as error:
            raise InputError(first_problem(error, type(self))) from None
