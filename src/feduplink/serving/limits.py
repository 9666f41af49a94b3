"""How much the service takes on."""

from __future__ import annotations

from pydantic import Field

from feduplink.validation import ValidatedModel


class Limits(ValidatedModel):
    """What one request may ask for, and how many may be under way; beyond it is refused."""

    max_body_bytes: int = Field(
        default=8 * 2**20, ge=64, le=2**30, description="largest body of a request, bytes"
    )
    max_workers: int = Field(default=256, ge=1, le=1024, description="most workers of a channel")
    max_channels: int = Field(
        default=10_000, ge=1, le=10**6, description="most channels of a request"
    )
    max_seconds: float = Field(
        default=10.0,
        gt=0,
        le=600,
        description="longest time from a request's header to its answer, s",
    )
    max_in_flight: int = Field(
        default=64,
        ge=1,
        le=10_000,
        description="most requests under way; others are told to come again",
    )
