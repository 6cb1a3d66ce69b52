"""The server as an application: `make_app(options)`. `docai.serve.run` runs it."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import logging
from collections.abc import AsyncIterator

from fastapi import APIRouter, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp

from docai.errors import DocaiError, OutputError
from docai.serve import errors
from docai.serve.desk import Desk, desk_of
from docai.serve.errors import ApiError, reply
from docai.serve.front import ClientGone, Front
from docai.serve.jobs import Runner
from docai.serve.options import ServeOptions
from docai.serve.route import Route
from docai.serve.settings import Settings
from docai.version import __version__

LOG = logging.getLogger("docai.serve")
_EXPIRE = 600.0  # seconds
ROUTERS = ("models_api", "chat", "completions", "responses", "files", "documents", "ocr_api", "jobs", "settings", "web")


def make_app(options: ServeOptions) -> FastAPI:
    """The whole server. Its parts are made when it starts; raises a DocaiError for options that cannot work."""
    desk = Desk(options)

    @contextlib.asynccontextmanager
    async def life(app: FastAPI) -> AsyncIterator[None]:
        _begin(desk)
        app.state.settings = Settings(options)
        app.state.runner = Runner(desk)
        app.state.runner.resume()
        try:
            yield
        finally:
            await desk.close()

    app = FastAPI(
        title="docai", version=__version__, lifespan=life, docs_url=None, redoc_url=None, openapi_url="/openapi.json"
    )
    app.state.desk = desk
    _wire(app, desk)
    return app


def _wire(app: FastAPI, desk: Desk) -> None:
    handlers = {
        ApiError: errors.on_api_error,
        DocaiError: errors.on_docai_error,
        RequestValidationError: errors.on_validation_error,
        HTTPException: errors.on_http_error,
        ClientGone: _on_gone,
        ClientDisconnect: _on_gone,  # in the middle of a body
        Exception: errors.on_other_error,
    }
    for kind, handler in handlers.items():
        app.add_exception_handler(kind, handler)
    app.include_router(router)
    for name in ROUTERS:
        app.include_router(importlib.import_module(f"docai.serve.{name}").router)

    class Around(Front):
        def __init__(self, inner: ASGIApp) -> None:
            super().__init__(inner, desk.options, desk.metrics)
            app.state.front = self

    build = app.build_middleware_stack
    app.build_middleware_stack = lambda: Around(build())  # type: ignore[method-assign]  # outside of all else


async def _on_gone(_: Request, __: Exception) -> Response:
    return Response(status_code=499)


def _begin(desk: Desk) -> None:
    desk.spawn(desk.models.sweep())
    desk.spawn(desk.detectors.sweep())
    desk.spawn(_expire(desk))
    if desk.options.preload:
        desk.spawn(desk.models.preload())
    desk.ready = True


async def _expire(desk: Desk) -> None:
    """Forget what has been kept long enough, from time to time, for ever."""
    while True:
        await asyncio.sleep(_EXPIRE)
        try:
            await desk.by_hand(desk.store.expire)
        except OutputError as error:  # a full disk may be written to again later
            LOG.error("%s", error)


router = APIRouter(route_class=Route)


@router.get("/livez", tags=["operations"])
async def livez() -> Response:
    """Whether the server runs."""
    return reply({"status": "ok"})


@router.get("/readyz", tags=["operations"])
async def readyz(request: Request) -> Response:
    """Whether it takes requests."""
    ready = desk_of(request).ready
    return reply({"status": "ok" if ready else "closing"}, 200 if ready else 503)


@router.get("/health", tags=["operations"])
async def health(request: Request) -> Response:
    """Whether what computes does: threads and engines that have ended, or do not go on, are told with 503."""
    desk = desk_of(request)
    broken = desk.broken()
    said = {"status": "broken" if broken else "ok", "version": __version__, "broken": broken}
    return reply(said, 503 if broken or not desk.ready else 200)


@router.get("/metrics", tags=["operations"])
async def metrics(request: Request) -> Response:
    """Counts and times in Prometheus' text format."""
    desk = desk_of(request)
    gauges = {
        "num_requests_running": desk.running,
        "num_requests_waiting": desk.models.waiting + desk.pages.waiting + desk.sight.waiting,
        "http_requests_open": request.app.state.front.open,
        "models_loaded": len(desk.models.loaded),
        "jobs": await desk.by_hand(desk.store.counts),
    }
    return PlainTextResponse(desk.metrics.text(gauges), media_type="text/plain; version=0.0.4")
