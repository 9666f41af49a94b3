"""What the service says of itself: the bodies in its OpenAPI description."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from feduplink.serving.csi_payload import BINARY, JSON, LARGEST_GAIN
from feduplink.serving.limits import Limits

#: H of two channels of two workers.
_EXAMPLE_CSI = [[[9e5, 2e3], [4e3, 3e6]], [[2e6, 7e4], [1e4, 8e5]]]


class Refusal(BaseModel):
    """Why there is no answer."""

    detail: str = Field(description="one sentence")


class Health(BaseModel):
    """The service lives."""

    status: Literal["ok"] = "ok"


class PolicyDescription(BaseModel):
    """A policy, as its file says, and what the service accepts for it."""

    model_config = ConfigDict(extra="ignore")

    policy: str = Field(description="its name")
    version: str = Field(description="of feduplink, that wrote the file")
    scenario: dict[str, Any] = Field(description="that the policy was made for")
    workers: int | None = Field(description="the only number of workers accepted; null: any")
    pmax_w: float | list[float] = Field(description="largest power, W, of all or per worker")
    silence_w: float = Field(description="powers below are set to 0, W")
    units: dict[str, str]
    multipliers: dict[str, Any] | None = Field(description="of the constraints, if it has any")
    limits: Limits


def _refused(why: str) -> dict[str, Any]:
    return {"model": Refusal, "description": why}


_RETRY = {"Retry-After": {"schema": {"type": "integer"}, "description": "s"}}
#: Answers that every route may give, by status.
REFUSALS: dict[int | str, dict[str, Any]] = {
    401: _refused("No token, or a wrong one") | {"headers": {"WWW-Authenticate": {"schema": {}}}},
    503: _refused("Too many requests under way") | {"headers": _RETRY},
}

#: Of a route that needs no token where others do.
WITHOUT_TOKEN: dict[str, Any] = {"security": []}


def security(description: dict[str, Any]) -> dict[str, Any]:
    """What a token adds to the description of the service."""
    schemes = {"bearer": {"type": "http", "scheme": "bearer"}}
    components = description["components"] | {"securitySchemes": schemes}
    return {"components": components, "security": [{"bearer": []}]}


#: Further answers of ``/v1/allocate``, by status.
POWERS: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "Powers in W, in the form of the request",
        "content": {
            JSON: {
                "schema": {
                    "type": "object",
                    "required": ["power_w"],
                    "additionalProperties": False,
                    "properties": {
                        "power_w": {
                            "description": "(L,) for one channel, (N, L) for several; W",
                            "type": "array",
                            "items": {
                                "anyOf": [
                                    {"type": "number", "minimum": 0},
                                    {"type": "array", "items": {"type": "number", "minimum": 0}},
                                ]
                            },
                        }
                    },
                }
            },
            BINARY: {"schema": {"type": "string", "format": "binary"}},
        },
    },
    408: _refused("The body did not arrive in time"),
    413: _refused("The body is too large"),
    415: _refused(f"Neither {JSON} nor {BINARY}"),
    422: _refused("No CSI: not square, not positive, not finite, or beyond a limit"),
}


_PHASE = {
    "type": "object",
    "required": ["duration_s", "power_w"],
    "additionalProperties": False,
    "properties": {
        "duration_s": {"type": "number", "exclusiveMinimum": 0, "description": "s"},
        "power_w": {
            "description": "(L,) W; 0: silent in this phase",
            "type": "array",
            "items": {"type": "number", "minimum": 0},
        },
    },
}
#: Answers of ``/v1/schedule``, by status.
PHASES: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "Phases, one after the other; for several channels one list each",
        "content": {
            JSON: {
                "schema": {
                    "type": "object",
                    "required": ["phases"],
                    "additionalProperties": False,
                    "properties": {
                        "phases": {
                            "type": "array",
                            "items": {"anyOf": [_PHASE, {"type": "array", "items": _PHASE}]},
                        }
                    },
                }
            }
        },
    },
    408: POWERS[408],
    413: POWERS[413],
    415: _refused(f"Not {JSON}"),
    422: POWERS[422],
}


def _csi_schema(limits: Limits) -> dict[str, Any]:
    row = {
        "type": "array",
        "minItems": 1,
        "maxItems": limits.max_workers,
        "items": {"type": "number", "exclusiveMinimum": 0, "maximum": LARGEST_GAIN},
    }
    matrix = {"type": "array", "minItems": 1, "maxItems": limits.max_workers, "items": row}
    matrices = {"type": "array", "minItems": 1, "maxItems": limits.max_channels, "items": matrix}
    return {
        "description": "H, (L, L) or (N, L, L): gains over the noise power, 1/W",
        "anyOf": [matrix, matrices],
    }


def schedule_body(limits: Limits, most_bits: float, most_kappa: float) -> dict[str, Any]:
    """The request body of ``/v1/schedule``."""
    schema = {
        "type": "object",
        "required": ["csi", "bits"],
        "additionalProperties": False,
        "properties": {
            "csi": _csi_schema(limits),
            "bits": {
                "description": "Z of one model",
                "type": "number",
                "exclusiveMinimum": 0,
                "maximum": most_bits,
            },
            "kappa": {
                "description": "how many seconds a joule is worth; 0: the fastest round",
                "type": "number",
                "minimum": 0,
                "maximum": most_kappa,
                "default": 0,
            },
        },
    }
    example = {"csi": _EXAMPLE_CSI[0], "bits": 1_272_320, "kappa": 10}
    return {
        "requestBody": {
            "required": True,
            "content": {JSON: {"schema": schema, "example": example}},
        }
    }


def csi_body(limits: Limits) -> dict[str, Any]:
    """The request body of ``/v1/allocate``."""
    schema = {
        "type": "object",
        "required": ["csi"],
        "additionalProperties": False,
        "properties": {"csi": _csi_schema(limits)},
    }
    return {
        "requestBody": {
            "required": True,
            "content": {
                JSON: {"schema": schema, "example": {"csi": _EXAMPLE_CSI}},
                BINARY: {
                    "schema": {
                        "type": "string",
                        "format": "binary",
                        "description": "N·L·L float32, little endian, row by row; needs ?workers=L",
                    }
                },
            },
        }
    }
