"""Routes of the playground: the page, its files, and the evaluation of scenes."""

from __future__ import annotations

import contextlib
import functools
import mimetypes
from collections.abc import AsyncIterator, Sequence

from fastapi import APIRouter, HTTPException, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.staticfiles import StaticFiles

from feduplink.errors import InputError
from feduplink.policies import PowerPolicy, shipped_network
from feduplink.scenario import Scenario
from feduplink.serving.payloads import Refusal
from feduplink.serving.playground.answer import SceneAnswer, SceneEvaluation
from feduplink.serving.playground.scene import (
    FirstScene,
    Scene,
    SceneChannel,
    Setting,
    check_playable,
)
from feduplink.serving.playground.tuned_settings import TunedSetting, TunedSettings, tune_setting

# Some Windows machines register another type for .js, which browsers do not execute.
mimetypes.add_type("text/javascript", ".js")
_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    # Browsers check for a newer version of the page.
    "Cache-Control": "no-cache",
}


def playground_router(scenario: Scenario, trained: Sequence[PowerPolicy] = ()) -> APIRouter:
    """Router with the page, its files under ``/playground/``, ``/v1/cell`` and ``/v1/scene``.

    During the lifespan of the application, a thread tunes policies for the requested settings.

    Args:
        scenario: cell, radio and initial setting, with one value for all workers in each field.
        trained: further policies to show, such as a trained ``pdg``, without tuning.

    Returns:
        The router.

    Raises:
        InputError: if the scenario has values per worker, CSI noise or further constraints.
    """
    check_playable(scenario)
    channel = SceneChannel(scenario)
    network = shipped_network()
    first = FirstScene.from_scenario(scenario)
    settings = TunedSettings(
        functools.partial(tune_setting, scenario, network), TunedSetting.shipped()
    )

    @contextlib.asynccontextmanager
    async def tuning(_: object) -> AsyncIterator[None]:
        settings.status(Setting.from_scene(first.scene))  # starts to tune for it
        yield
        await run_in_threadpool(settings.stop)

    router = APIRouter(lifespan=tuning)

    @router.get("/v1/cell", summary="Describe the cell, and a scene to start with")
    def cell() -> FirstScene:
        return first

    @router.post(
        "/v1/scene",
        summary="Evaluate all policies in a scene",
        responses={status: {"model": Refusal} for status in (400, 422)},
    )
    def scene(scene: Scene) -> SceneAnswer:
        if (problem := first.limits.problem(scene)) is not None:
            raise HTTPException(422, problem)
        status = settings.status(Setting.from_scene(scene))
        try:
            return SceneEvaluation(scene, scenario, channel, status).answer(network, trained)
        except InputError as error:  # gains that 32 bits do not hold
            raise HTTPException(422, str(error)) from None

    files = StaticFiles(packages=[(__package__, "web")])

    @router.get("/playground/{name}", include_in_schema=False)
    async def file(request: Request, name: str) -> Response:
        response = await files.get_response(name, request.scope)
        response.headers.update(_HEADERS)
        return response

    @router.get("/", include_in_schema=False)
    async def page(request: Request) -> Response:
        return await file(request, "index.html")

    return router
