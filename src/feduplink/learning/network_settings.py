"""How the network of ``pdx`` is trained."""

from __future__ import annotations

from pydantic import Field

from feduplink.validated_model import ValidatedModel


class NetworkSettings(ValidatedModel):
    """Hyperparameters of the network's training; the defaults suit one scenario on a CPU."""

    steps: int = Field(default=1500, ge=100, le=10**7, description="batches of fresh channels")
    batch_size: int = Field(default=128, ge=1, le=10**6, description="channels in a batch")
    learning_rate: float = Field(default=2e-3, gt=0, le=1, description="AdamW's largest step")
