"""ASGI application of the service: routes and error responses.

>>> from feduplink.export import OnnxPolicy
>>> create_app(OnnxPolicy("runs/export/policy.onnx"))  # doctest: +SKIP
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import torch
from fastapi import APIRouter, FastAPI, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, PlainTextResponse
from numpy.typing import NDArray
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from pydantic_core import to_json
from starlette.exceptions import HTTPException

from feduplink.errors import InputError
from feduplink.export import OnnxPolicy
from feduplink.scenario import Scenario
from feduplink.scheduling import learned_schedules, shipped_phase_network
from feduplink.serving.batching import DynamicBatcher
from feduplink.serving.guard import Guard, Metrics
from feduplink.serving.limits import Limits
from feduplink.serving.payloads import (
    BINARY,
    JSON,
    MAX_SCHEDULE_SIZE,
    AllocationRequest,
    AllocationResponse,
    Array,
    Health,
    Phase,
    PolicyDescription,
    Refusal,
    ScheduleRequest,
    ScheduleResponse,
    csi_from_bytes,
    csi_from_json,
    csi_from_lists,
    parse_request,
    powers_to_bytes,
    powers_to_json,
)
from feduplink.version import __version__

#: Maximum size of a body that is parsed in the event loop, bytes; larger ones use a thread.
MAX_INLINE_BODY_BYTES = 2**16

_Responses = dict[int | str, dict[str, Any]]


def _refusal(description: str, **more: Any) -> dict[str, Any]:
    """OpenAPI entry of an error response."""
    return {"model": Refusal, "description": description, **more}


#: OpenAPI responses of every route, by status.
_COMMON_RESPONSES: _Responses = {
    401: _refusal("Token missing or wrong", headers={"WWW-Authenticate": {"schema": {}}}),
    503: _refusal(
        "Too many requests in flight",
        headers={"Retry-After": {"schema": {"type": "integer"}, "description": "s"}},
    ),
}
#: Responses of routes that take a body.
_BODY_RESPONSES: _Responses = {
    408: _refusal("The body did not arrive in time"),
    413: _refusal("The body is too large"),
    415: _refusal("Content-Type is not accepted"),
    422: _refusal("Invalid body or query, or a limit exceeded"),
}
_BINARY_CONTENT = {BINARY: {"schema": {"type": "string", "format": "binary"}}}
_ALLOCATION_RESPONSES: _Responses = _BODY_RESPONSES | {
    200: {"model": AllocationResponse, "content": _BINARY_CONTENT}
}
_SCHEDULE_RESPONSES: _Responses = _BODY_RESPONSES | {200: {"model": ScheduleResponse}}
#: OpenAPI entry of a route that never needs a token.
_NO_SECURITY: dict[str, Any] = {"security": []}


def _request_body(content: dict[str, Any]) -> dict[str, Any]:
    """OpenAPI entry of a body that the route parses itself."""
    return {"requestBody": {"required": True, "content": content}}


def create_app(
    policy: OnnxPolicy,
    *,
    limits: Limits | None = None,
    token: str | None = None,
    routers: Sequence[APIRouter] = (),
) -> FastAPI:
    """Create the ASGI application for a policy.

    Args:
        policy: exported policy that computes the powers.
        limits: limits of requests; None: the defaults.
        token: bearer token required by all requests except those to ``/healthz`` and for the page
            of the playground; None: no token is required.
        routers: further routes, subject to the same token and limits.

    Returns:
        The application.
    """
    limits = limits or Limits()
    metrics = Metrics()
    batcher = DynamicBatcher(policy.run, metrics.observe_batch)

    @contextlib.asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        # Warm-up: the first computation takes about fifty times as long as the following ones.
        await batcher.allocate(np.ones((1,) + 2 * (policy.scenario.workers,), np.float32))
        yield

    app = FastAPI(
        title="feduplink",
        summary="Transmit powers for the uplink of wireless federated learning.",
        version=__version__,
        lifespan=lifespan,
        docs_url=None,  # the documentation pages would load scripts from other sites
        redoc_url=None,
        responses=_COMMON_RESPONSES,
    )
    app.add_middleware(Guard, limits=limits, token=token, metrics=metrics)
    for kind in (RequestValidationError, InputError, HTTPException, Exception):
        app.add_exception_handler(kind, _error_response)
    app.include_router(_policy_router(policy, batcher, limits))
    app.include_router(_schedule_router(policy.scenario, limits))
    app.include_router(_monitoring_router(metrics))
    for router in routers:
        app.include_router(router)
    if token is not None:
        description = app.openapi()  # cached by FastAPI
        description["components"]["securitySchemes"] = {
            "bearer": {"type": "http", "scheme": "bearer"}
        }
        description["security"] = [{"bearer": []}]
    return app


def _policy_router(policy: OnnxPolicy, batcher: DynamicBatcher, limits: Limits) -> APIRouter:
    """Routes for powers and the description of the policy."""
    router = APIRouter()
    pmax_w = _round_down(policy.scenario.max_power.numpy())
    binary_body = {
        "schema": {
            "type": "string",
            "format": "binary",
            "description": "N·L·L float32, little endian, row by row; needs ?workers=L",
        }
    }

    @router.post(
        "/v1/allocate",
        summary="Allocate powers for one or several channels",
        response_class=Response,
        responses=_ALLOCATION_RESPONSES,
        openapi_extra=_request_body(
            {JSON: {"schema": AllocationRequest.model_json_schema()}, BINARY: binary_body}
        ),
    )
    async def allocate(
        request: Request,
        workers: int | None = Query(
            None,
            ge=1,
            le=limits.max_workers,
            description="L of a binary body; with JSON it must agree with csi or be left out",
        ),
    ) -> Response:
        content_type = _content_type(request, (JSON, BINARY))
        # FastAPI ignores unknown parameters and all but the last value of a repeated one.
        if [name for name, _ in request.query_params.multi_items()] not in ([], ["workers"]):
            raise InputError("The query must be empty or workers=L.")
        body = await request.body()

        def parse() -> Array:
            read = csi_from_json if content_type == JSON else csi_from_bytes
            csi = read(body, workers, limits)
            _check_number_of_workers(csi, policy.fixed_workers)
            return csi

        inline = len(body) <= MAX_INLINE_BODY_BYTES
        csi = parse() if inline else await asyncio.to_thread(parse)
        powers = await batcher.allocate(csi.reshape(-1, *csi.shape[-2:]))
        if not np.isfinite(powers).all():
            raise InputError("csi has a dynamic range that float32 cannot represent.")
        powers = np.clip(powers, 0, pmax_w).reshape(csi.shape[:-1])
        if content_type == JSON:
            return Response(powers_to_json(powers), media_type=JSON)
        return Response(powers_to_bytes(powers), media_type=BINARY)

    @router.get("/v1/policy", summary="Describe the policy and the limits of a request")
    async def describe() -> PolicyDescription:
        return PolicyDescription(
            **policy.metadata, pmax_w=policy.scenario.max_power.tolist(), limits=limits
        )

    return router


def _schedule_router(scenario: Scenario, limits: Limits) -> APIRouter:
    """Route for schedules of the pretrained network, computed one request at a time."""
    router = APIRouter()
    thread = ThreadPoolExecutor(1, thread_name_prefix="schedule")

    @router.post(
        "/v1/schedule",
        summary="Schedule the uploads of one or several rounds",
        response_class=Response,
        responses=_SCHEDULE_RESPONSES,
        openapi_extra=_request_body({JSON: {"schema": ScheduleRequest.model_json_schema()}}),
    )
    async def schedule(request: Request) -> Response:
        _content_type(request, (JSON,))
        if request.query_params:
            raise InputError("The query must be empty.")
        body = await request.body()

        def compute() -> bytes:
            return _schedules(parse_request(ScheduleRequest, body), scenario, limits)

        content = await asyncio.get_running_loop().run_in_executor(thread, compute)
        return Response(content, media_type=JSON)

    return router


def _schedules(request: ScheduleRequest, scenario: Scenario, limits: Limits) -> bytes:
    """Compute the :class:`ScheduleResponse` of a request, as JSON."""
    csi = csi_from_lists(request.csi, limits)
    workers, rounds = csi.shape[-1], csi[..., 0, 0].size
    if rounds * workers**3 > MAX_SCHEDULE_SIZE:
        raise InputError(
            f"csi must have N·L³ of at most {MAX_SCHEDULE_SIZE} for schedules; got {rounds} "
            f"channels of {workers} workers."
        )
    radios_are_listed = scenario.max_power.ndim + scenario.static_power.ndim > 0
    _check_number_of_workers(csi, scenario.workers if radios_are_listed else None)
    too_far_apart = InputError("csi has a dynamic range too large to compute a schedule.")
    try:
        with np.errstate(all="ignore"):  # the result is checked below
            schedule = learned_schedules(
                shipped_phase_network(),
                scenario,
                torch.from_numpy(csi.reshape(-1, workers, workers)),
                request.bits,
                seconds_per_joule=request.kappa,
            )
    except (RuntimeError, np.linalg.LinAlgError):  # singular matrix
        raise too_far_apart from None
    schedule = schedule.limited(scenario.max_power)
    if not bool(schedule.durations_s.isfinite().all() and schedule.senders.all()):
        raise too_far_apart
    phases = [Phase.from_schedule(schedule, row) for row in range(rounds)]
    return to_json({"phases": phases if csi.ndim == 3 else phases[0]})


def _monitoring_router(metrics: Metrics) -> APIRouter:
    """Routes for liveness and metrics."""
    router = APIRouter()

    @router.get("/healthz", summary="Report liveness", openapi_extra=_NO_SECURITY)
    async def healthz() -> Health:
        return Health()

    @router.get("/metrics", summary="Prometheus metrics", response_class=PlainTextResponse)
    async def prometheus() -> Response:
        return Response(generate_latest(metrics.registry), media_type=CONTENT_TYPE_LATEST)

    return router


def _content_type(request: Request, accepted: Sequence[str]) -> str:
    """Media type of the body, without parameters; raises an error of status 415 if not accepted."""
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type not in accepted:
        raise HTTPException(415, f"Content-Type must be {' or '.join(accepted)}.")
    return media_type


def _check_number_of_workers(csi: Array, expected: int | None) -> None:
    """Raise :class:`InputError` unless CSI is for ``expected`` workers; None: any."""
    if expected not in (None, csi.shape[-1]):
        raise InputError(f"csi must have exactly {expected} workers; got {csi.shape[-1]}.")


def _round_down(pmax_w: NDArray[np.float64]) -> Array:
    """Round Pmax, () or (L,), W, down to float32."""
    nearest = pmax_w.astype(np.float32)
    return np.where(nearest > pmax_w, np.nextafter(nearest, np.float32(0)), nearest)


async def _error_response(_request: Request, error: Exception) -> Response:
    """Response ``{"detail": "One sentence."}``; unexpected errors are not described."""
    status, detail, headers = 500, "The service failed.", None
    if isinstance(error, InputError):
        status, detail = 422, str(error)
    elif isinstance(error, RequestValidationError):
        problem: dict[str, Any] = error.errors()[0]
        field = ".".join(str(part) for part in problem["loc"][1:]) or problem["loc"][0]
        status, detail = 422, f"{field}: {problem['msg']}."
    elif isinstance(error, HTTPException):
        status, headers = error.status_code, error.headers
        detail = f"{error.detail.removesuffix('.')}."
    return JSONResponse({"detail": detail}, status, headers)
