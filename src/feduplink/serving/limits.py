"""Limits of the service; importing this module does not need the extra ``serve``."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from feduplink.validation import ValidatedModel

MaxBodyBytes = Annotated[
    int, Field(ge=64, le=2**30, description="Maximum size of a request body, in bytes")
]
MaxWorkers = Annotated[
    int, Field(ge=1, le=1024, description="Maximum number of workers of a channel")
]
MaxChannels = Annotated[
    int, Field(ge=1, le=10**6, description="Maximum number of channels of a request")
]
MaxSeconds = Annotated[
    float,
    Field(gt=0, le=600, description="Maximum time from a request's header to its response, in s"),
]
MaxInFlight = Annotated[
    int,
    Field(ge=1, le=10_000, description="Maximum number of requests in flight; others get 503"),
]


class Limits(ValidatedModel):
    """Limits of one request, and of the number of requests in flight."""

    max_body_bytes: MaxBodyBytes = 8 * 2**20
    max_workers: MaxWorkers = 256
    max_channels: MaxChannels = 10_000
    max_seconds: MaxSeconds = 10.0
    max_in_flight: MaxInFlight = 64
