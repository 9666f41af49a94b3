"""The service as an ASGI application.

>>> from feduplink.export import OnnxPolicy
>>> create_app(OnnxPolicy("runs/export/policy.onnx"))  # doctest: +SKIP
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from typing import Any

import numpy as np
from fastapi import APIRouter, FastAPI, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, PlainTextResponse
from numpy.typing import NDArray
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.exceptions import HTTPException

from feduplink.errors import InputError
from feduplink.export import OnnxPolicy
from feduplink.serving import api_description as described
from feduplink.serving.batching import Batching
from feduplink.serving.csi_payload import (
    BINARY,
    JSON,
    Array,
    csi_from_bytes,
    csi_from_json,
    powers_to_bytes,
    powers_to_json,
)
from feduplink.serving.guard import Guard, Metrics
from feduplink.serving.limits import Limits
from feduplink.serving.schedule_router import schedule_router
from feduplink.version import __version__

#: A body of more bytes is read by a thread, so that others are answered meanwhile.
_SMALL_BODY = 2**16


def create_app(
    policy: OnnxPolicy,
    *,
    limits: Limits | None = None,
    token: str | None = None,
    routers: Sequence[APIRouter] = (),
) -> FastAPI:
    """The service of a policy.

    Args:
        policy: what powers come from.
        limits: what it takes on.
        token: that every request but those to ``/healthz`` has to bear; None: anybody may ask.
        routers: more of the site, behind the same guard.

    """
    limits = limits or Limits()
    metrics = Metrics()
    batching = Batching(policy.run, metrics.observe_batch)

    @contextlib.asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        # The first computation takes fifty times as long as others.
        await batching.allocate(np.ones((1,) + 2 * (policy.scenario.workers,), np.float32))
        yield
        await batching.finish()

    app = _Service(
        needs_token=token is not None,
        title="feduplink",
        summary="Transmit powers for the uplink of wireless federated learning.",
        version=__version__,
        lifespan=lifespan,
        docs_url=None,  # their pages load scripts from other sites
        redoc_url=None,
        responses=described.REFUSALS,
    )
    app.add_middleware(Guard, limits=limits, token=token, metrics=metrics)
    app.add_exception_handler(RequestValidationError, _one_sentence)
    app.add_exception_handler(InputError, _one_sentence)
    app.add_exception_handler(HTTPException, _one_sentence)
    app.add_exception_handler(Exception, _one_sentence)
    app.include_router(_routes(policy, batching, limits, metrics))
    app.include_router(schedule_router(policy.scenario, limits))
    for router in routers:
        app.include_router(router)
    return app


class _Service(FastAPI):
    """Says in its description whether it needs a token."""

    def __init__(self, *, needs_token: bool, **options: Any) -> None:
        super().__init__(**options)
        self._needs_token = needs_token

    def openapi(self) -> dict[str, Any]:
        description = super().openapi()
        return description | described.security(description) if self._needs_token else description


def _routes(policy: OnnxPolicy, batching: Batching, limits: Limits, metrics: Metrics) -> APIRouter:
    router = APIRouter()
    largest_w = _rounded_down(policy.scenario.pmax_w.numpy())
    of_workers = Query(
        None,
        ge=1,
        le=limits.max_workers,
        description="L of a binary body; JSON says it itself and is refused if this differs",
    )

    @router.post(
        "/v1/allocate",
        summary="Powers for one channel or many",
        response_class=Response,
        responses=described.POWERS,
        openapi_extra=described.csi_body(limits),
    )
    async def allocate(
        request: Request,
        workers: int | None = of_workers,
    ) -> Response:
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind not in (JSON, BINARY):
            raise HTTPException(415, f"Content-Type: not accepted; accepted: {JSON}, {BINARY}.")
        _check_query(request)
        body = await request.body()

        def read() -> Array:
            csi = (
                csi_from_json(body, workers, limits)
                if kind == JSON
                else csi_from_bytes(body, workers, limits)
            )
            _check_fixed_workers(policy, csi)
            return csi

        csi = read() if len(body) <= _SMALL_BODY else await asyncio.to_thread(read)
        powers = await batching.allocate(csi.reshape(-1, *csi.shape[-2:]))
        if not np.isfinite(powers).all():
            raise InputError("csi: gains too far apart to compute with; accepted: float32 ones.")
        powers = np.clip(powers, 0, largest_w).reshape(csi.shape[:-1])
        if kind == JSON:
            return Response(powers_to_json(powers), media_type=JSON)
        return Response(powers_to_bytes(powers), media_type=BINARY)

    @router.get("/v1/policy", summary="What powers come from, and what is accepted")
    async def metadata() -> described.PolicyDescription:
        return described.PolicyDescription(
            **policy.metadata,
            pmax_w=policy.scenario.pmax_w.tolist(),
            limits=limits,
        )

    @router.get(
        "/healthz", summary="Whether the service lives", openapi_extra=described.WITHOUT_TOKEN
    )
    async def healthz() -> described.Health:
        return described.Health()

    @router.get(
        "/metrics",
        summary="Counts and times, for Prometheus",
        response_class=PlainTextResponse,
    )
    async def prometheus() -> Response:
        return Response(generate_latest(metrics.registry), media_type=CONTENT_TYPE_LATEST)

    return router


def _check_query(request: Request) -> None:
    """Refuse what FastAPI ignores: a name that it does not know, and all but the last of a name."""
    names = [name for name, _ in request.query_params.multi_items()]
    if names not in ([], ["workers"]):
        raise InputError("query: not accepted; accepted: none, or workers=L once.")


def _check_fixed_workers(policy: OnnxPolicy, csi: Array) -> None:
    if policy.fixed_workers not in (None, csi.shape[-1]):
        raise InputError(
            f"csi: {csi.shape[-1]} workers; accepted here: exactly {policy.fixed_workers}."
        )


def _rounded_down(pmax_w: NDArray[np.float64]) -> Array:
    """The largest float32 not above Pmax, () or (L,); the nearest one may be."""
    nearest = pmax_w.astype(np.float32)
    return np.where(nearest > pmax_w, np.nextafter(nearest, np.float32(0)), nearest)


async def _one_sentence(_request: Request, error: Exception) -> Response:
    """Every refusal has the same form, ``{"detail": "One sentence."}``."""
    status, sentence, headers = 500, "The service failed.", None
    if isinstance(error, InputError):
        status, sentence = 422, str(error)
    elif isinstance(error, RequestValidationError):
        problem: dict[str, Any] = error.errors()[0]
        field = ".".join(str(part) for part in problem["loc"][1:]) or problem["loc"][0]
        status, sentence = 422, f"{field}: {problem['msg']}."
    elif isinstance(error, HTTPException):
        status, headers = error.status_code, error.headers
        sentence = f"{error.detail.removesuffix('.')}."
    return JSONResponse({"detail": sentence}, status, headers)
