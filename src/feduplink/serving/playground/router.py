"""Routes of the playground: the page, its files, and the evaluation of scenes."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from importlib import resources
from typing import Any

from fastapi import APIRouter, HTTPException, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute

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

_MEDIA_TYPES = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    # Browsers check for a newer version of the page.
    "Cache-Control": "no-cache",
}
_PAGE = "index.html"
#: Maximum length of an invalid value or a name that an error message repeats, in characters.
_MAX_REPEATED = 60


class _OneSentenceRoute(APIRoute):
    """Reports the first problem of a body in one sentence; FastAPI would list all."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def handle_or_refuse(request: Request) -> Response:
            try:
                return await handle(request)
            except RequestValidationError as error:
                raise HTTPException(422, _first_problem(error)) from None

        return handle_or_refuse


def playground_router(scenario: Scenario, trained: Sequence[PowerPolicy] = ()) -> APIRouter:
    """``GET /`` with its files under ``/playground/``, ``GET /v1/cell`` and ``POST /v1/scene``.

    While the application runs (its lifespan), a thread tunes policies for the settings requested.

    Args:
        scenario: cell, radio and initial setting, with one value for all workers in each field.
        trained: further policies to show, such as a trained ``pdg``; they are used as they are in
            all settings.

    Raises:
        InputError: if the scenario does not allow that workers are added and removed.
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
        settings.start(Setting.from_scene(first.scene))
        yield
        await run_in_threadpool(settings.stop)

    router = APIRouter(route_class=_OneSentenceRoute, lifespan=tuning)

    @router.get("/v1/cell", summary="Describe the cell, and a scene to start with")
    def cell() -> FirstScene:
        return first

    def scene(scene: Scene) -> SceneAnswer:
        if (worker := scene.repeated_id) is not None:
            raise HTTPException(409, f"workers must have different ids; got {worker} twice.")
        status = settings.status(Setting.from_scene(scene))
        return SceneEvaluation(scene, scenario, channel, status).answer(network, trained)

    # The limits depend on the cell; FastAPI takes them and the OpenAPI schema from the annotation.
    scene.__annotations__["scene"] = first.limits.scene_type()
    refusals: dict[int | str, dict[str, Any]] = {
        status: {"model": Refusal} for status in (400, 409, 422)
    }
    router.post("/v1/scene", summary="Evaluate all policies in a scene", responses=refusals)(scene)

    files = _files()

    @router.get("/", include_in_schema=False)
    def page() -> Response:
        return files[_PAGE]

    @router.get("/playground/{name}", include_in_schema=False)
    def file(name: str) -> Response:
        if name not in files:
            raise HTTPException(404, f"No file is called {name[:_MAX_REPEATED]}.")
        return files[name]

    return router


def _files() -> dict[str, Response]:
    """Responses with the page's files, by name."""
    folder = resources.files("feduplink.serving.playground") / "web"
    return {
        file.name: Response(
            file.read_bytes(),
            media_type=_MEDIA_TYPES[file.name.rpartition(".")[2]],
            headers=_HEADERS,
        )
        for file in folder.iterdir()
    }


def _first_problem(error: RequestValidationError) -> str:
    """The field, the problem, and the value given if it is short."""
    problem: dict[str, Any] = error.errors()[0]
    where = ".".join(str(part) for part in problem["loc"][1:]) or "body"
    given = "" if problem["type"] in ("missing", "json_invalid") else repr(problem["input"])
    shown = f" (got {given})" if 0 < len(given) <= _MAX_REPEATED else ""
    return f"{where}: {problem['msg'].removesuffix('.')}{shown}."
