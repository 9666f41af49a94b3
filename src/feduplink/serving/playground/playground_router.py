"""The playground over HTTP: the page, its files, and the physics that the page asks for."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from importlib import resources
from typing import Any

from fastapi import APIRouter, HTTPException, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import BaseModel

from feduplink.policies import Policy, shipped_network
from feduplink.scenario import Scenario
from feduplink.serving.playground.scene import FirstScene, Scene, Setting, check_playable
from feduplink.serving.playground.scene_answer import SceneAnswer, SceneEvaluation
from feduplink.serving.playground.scene_channel import SceneChannel
from feduplink.serving.playground.tuned_settings import TunedSettings

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
    # A new version of the package is a new page at once.
    "Cache-Control": "no-cache",
}
_PAGE = "index.html"
#: Longest text of a refused value that is repeated in the sentence about it.
_LONGEST_REPEATED = 60


class Refusal(BaseModel):
    """Why a request was not accepted, in one sentence."""

    detail: str


class _OneSentenceRoute(APIRoute):
    """Says in one sentence what is wrong with a body, where FastAPI would list everything."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def handle_or_refuse(request: Request) -> Response:
            try:
                return await handle(request)
            except RequestValidationError as error:
                raise HTTPException(422, _first_problem(error)) from None

        return handle_or_refuse


def playground_router(scenario: Scenario, trained: Sequence[Policy] = ()) -> APIRouter:
    """``GET /`` with its files under ``/playground/``, ``/v1/cell`` and ``/v1/scene``.

    While the application runs (its lifespan), a thread finds the multipliers of new settings.

    Args:
        scenario: the cell, its radio and the thresholds to begin with. One value for all workers
            in each field, since they come and go; otherwise an
            :class:`~feduplink.errors.InputError`.
        trained: further policies that get a row, as a trained ``pdg``; without their own
            training for the setting of a scene.

    """
    check_playable(scenario)
    channel = SceneChannel(scenario)
    network = shipped_network()
    start = FirstScene.from_scenario(scenario)
    settings = TunedSettings(scenario, Setting.from_scene(start.scene), network)

    @contextlib.asynccontextmanager
    async def searching(_: object) -> AsyncIterator[None]:
        settings.start()
        yield
        await run_in_threadpool(settings.stop)

    router = APIRouter(route_class=_OneSentenceRoute, lifespan=searching)

    @router.get("/v1/cell", summary="The cell of the playground, and a scene to begin with")
    def cell() -> FirstScene:
        return start

    def scene(scene: Scene) -> SceneAnswer:
        if (worker := scene.repeated) is not None:
            raise HTTPException(409, f"workers: number {worker} twice; accepted: once each.")
        known = settings.known(Setting.from_scene(scene))
        return SceneEvaluation(scene, scenario, channel, known).answer(network, trained)

    # The limits are those of this cell, and stand in the description of the interface as well.
    scene.__annotations__["scene"] = start.limits.scene_type()
    refusals: dict[int | str, dict[str, Any]] = {
        status: {"model": Refusal} for status in (400, 409, 422)
    }
    router.post("/v1/scene", summary="What every policy makes of a scene", responses=refusals)(
        scene
    )

    files = _files()

    @router.get("/", include_in_schema=False)
    def page() -> Response:
        return files[_PAGE]

    @router.get("/playground/{name}", include_in_schema=False)
    def file(name: str) -> Response:
        if name not in files:
            raise HTTPException(404, f"{name[:_LONGEST_REPEATED]}: no such file.")
        return files[name]

    return router


def _files() -> dict[str, Response]:
    """The page's files by name, ready to be sent."""
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
    """The first problem of a body: where, what is wrong, and what was given, if it is short."""
    problem: dict[str, Any] = error.errors()[0]
    where = ".".join(str(part) for part in problem["loc"][1:]) or "body"
    given = "" if problem["type"] in ("missing", "json_invalid") else repr(problem["input"])
    shown = f" (got {given})" if 0 < len(given) <= _LONGEST_REPEATED else ""
    return f"{where}: {problem['msg'].removesuffix('.')}{shown}."
