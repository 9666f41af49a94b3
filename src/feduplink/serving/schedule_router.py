"""The route of schedules: who sends when in a round, at which power."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

from fastapi import APIRouter, Request, Response
from starlette.exceptions import HTTPException

from feduplink.errors import InputError
from feduplink.scenario import Scenario
from feduplink.serving import api_description as described
from feduplink.serving.csi_payload import JSON
from feduplink.serving.limits import Limits
from feduplink.serving.schedule_payload import MOST_BITS, MOST_KAPPA, ScheduleRequest, answered


def schedule_router(scenario: Scenario, limits: Limits) -> APIRouter:
    """Schedules of the shipped network for the radios of a scenario, one request at a time."""
    router = APIRouter()
    thread = ThreadPoolExecutor(1, thread_name_prefix="schedule")

    @router.post(
        "/v1/schedule",
        summary="Who sends when in a round, at which power",
        response_class=Response,
        responses=described.PHASES,
        openapi_extra=described.schedule_body(limits, MOST_BITS, MOST_KAPPA),
    )
    async def schedule(request: Request) -> Response:
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != JSON:
            raise HTTPException(415, f"Content-Type: not accepted; accepted: {JSON}.")
        if request.query_params:
            raise InputError("query: not accepted; accepted: none.")
        body = await request.body()

        def compute() -> bytes:
            return answered(ScheduleRequest.from_json(body, limits, scenario), scenario)

        content = await asyncio.get_running_loop().run_in_executor(thread, compute)
        return Response(content, media_type=JSON)

    return router
