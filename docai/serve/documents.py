"""`/v1/parse`, `/v1/detect`, `/v1/caption`, `/v1/ground`: by the same options as the command line."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import orjson
from fastapi import APIRouter, Request
from starlette.responses import Response

from docai.errors import DocaiError
from docai.export.formats import FORMATS, format_of
from docai.render.inputs import InputFile
from docai.serve.asked import body_of, content_of, described, limits_of, model_for, options_for
from docai.serve.desk import Desk, desk_of, owner_of, while_there
from docai.serve.errors import ApiError, busy, reply, translated
from docai.serve.media import Content
from docai.serve.models import Offered
from docai.serve.pages import check_engine, document, exported, opened
from docai.serve.route import Route
from docai.tasks.options import (
    CaptionOptions,
    DetectOptions,
    GroundOptions,
    OcrOptions,
    ParseOptions,
    PictureOptions,
)
from docai.vlm.request import GenerationOptions

if TYPE_CHECKING:
    from docai.render.document import Source
    from docai.tasks.ocr import Layout
    from docai.vlm.ticket import Ticket

T = TypeVar("T")

router = APIRouter(route_class=Route, tags=["documents"])

_DOCUMENT: dict[str, Any] = {"document": (Any, None)}
Format = Literal[tuple(FORMATS)]  # type: ignore[valid-type]
ParseRequest = model_for(
    "ParseRequest",
    ParseOptions,
    layout=(Any, None),
    format=(Format, "json"),
    images=(Literal["none", "embed"], "none"),
    furniture=(Literal["drop", "keep"], "drop"),
    **_DOCUMENT,
)
DetectRequest = model_for("DetectRequest", DetectOptions, **_DOCUMENT)

CaptionRequest = model_for(
    "CaptionRequest", CaptionOptions, PictureOptions, GenerationOptions, model=(str | None, None), **_DOCUMENT
)
GroundRequest = model_for(
    "GroundRequest",
    GroundOptions,
    PictureOptions,
    GenerationOptions,
    model=(str | None, None),
    phrases=(str | list[str], []),
    **_DOCUMENT,
)


@router.post("/v1/parse", openapi_extra=described(ParseRequest))
async def parse(request: Request) -> Response:
    """A document in any format: `format` is one of those of `docai parse`."""
    asked, file = await body_of(request, ParseRequest)
    content = await while_there(request, content_of(request, asked.document, file))
    options, layout = parse_options(asked, desk_of(request))
    return await while_there(request, _parsed(desk_of(request), content, asked, options, layout))


def parse_options(asked: Any, desk: Desk) -> tuple[OcrOptions, Layout | None]:
    """How a document is to be read, and the layout that came with the request. Raises ApiError."""
    from docai.layout.detector import EMBEDDED
    from docai.tasks.ocr import layout_from

    chosen = options_for(ParseOptions, asked, **limits_of(desk.options))
    check_engine(desk, chosen.model)
    options = options_for(OcrOptions, asked, **limits_of(desk.options), layout=EMBEDDED)
    given = asked.layout
    if given in (None, "auto", EMBEDDED):
        return options, None
    try:
        return options, layout_from(given.encode() if isinstance(given, str) else orjson.dumps(given))
    except DocaiError as error:
        told = translated(error)
        told.param = "layout"
        raise told from error


async def _parsed(desk: Desk, content: Content, asked: Any, options: OcrOptions, layout: Layout | None) -> Response:
    read, source = await document(desk, content, options, layout)
    data = await exported(desk, read, asked.format, source, images=asked.images, furniture=asked.furniture)
    return in_format(data, asked.format, read.outcome.status.value)


def in_format(data: str | bytes, name: str, status: str) -> Response:
    """A document's export as a response. HTML is not shown as a page of this server's."""
    body = data.encode() if isinstance(data, str) else data
    headers = {"content-security-policy": "sandbox", "x-docai-status": status}
    return Response(body, headers=headers, media_type=format_of(name).media_type)


@router.post("/v1/detect", openapi_extra=described(DetectRequest))
async def detect(request: Request) -> Response:
    """The regions of pages: what `docai detect` prints, as a list."""
    asked, file = await body_of(request, DetectRequest)
    desk = desk_of(request)
    if asked.model != "embedded":
        raise ApiError(404, "there is no detector but embedded on this server", code="model_not_found", param="model")
    content = await while_there(request, content_of(request, asked.document, file))
    options = options_for(DetectOptions, asked, **limits_of(desk.options))
    return await while_there(request, _detected(desk, content, options))


async def _detected(desk: Desk, content: Content, options: DetectOptions) -> Response:
    from docai.tasks.ocr import chosen_pages

    desk.pages.check()
    pages: list[dict[str, Any]] = []
    errors: list[dict[str, Any]] = []
    async with opened(desk, content, options.password) as source:
        for index in chosen_pages(source, options):
            one = replace(options, pages=str(index + 1))
            found, failed = await desk.pages.do(partial(_regions, source, one), bounded=False)
            pages += found
            errors += ({"page": index + 1, "message": message} for message in failed)
    desk.metrics.count("regions_total", sum(len(page["detections"]) for page in pages))
    return reply({"object": "list", "data": pages, "errors": errors})


def _regions(source: Source, options: DetectOptions) -> tuple[list[dict[str, Any]], list[str]]:
    from docai.layout.detections import detections_json
    from docai.tasks.detect import detect_pages

    errors: list[str] = []
    found = list(detect_pages(source, options, on_error=lambda error: errors.append(str(error))))
    return [orjson.loads(detections_json(page)) for page in found], errors


# --- with a model


@router.post("/v1/caption", openapi_extra=described(CaptionRequest))
async def caption(request: Request) -> Response:
    """What pictures show: what `docai caption --json` prints, as a list."""
    from docai.tasks.caption import captions

    asked, file = await body_of(request, CaptionRequest)
    what = options_for(CaptionOptions, asked)

    def told(model: Any, seen: InputFile, pictures: PictureOptions, options: GenerationOptions) -> list[Any]:
        return [one.as_json(model.name) for one in captions(model, seen, what, pictures, options)]

    return reply({"object": "list", "data": await _seen(request, asked, file, told)})


@router.post("/v1/ground", openapi_extra=described(GroundRequest))
async def ground(request: Request) -> Response:
    """Where things are in pictures: what `docai ground` prints, as a list."""
    from docai.tasks.ground import grounded

    asked, file = await body_of(request, GroundRequest)
    what = options_for(GroundOptions, asked)
    phrases = [asked.phrases] if isinstance(asked.phrases, str) else asked.phrases

    def told(model: Any, seen: InputFile, pictures: PictureOptions, options: GenerationOptions) -> list[Any]:
        return [one.as_json(model.name) for one in grounded(model, seen, phrases, what, pictures, options)]

    return reply({"object": "list", "data": await _seen(request, asked, file, told)})


Told = Callable[[Any, InputFile, PictureOptions, GenerationOptions], list[Any]]


async def _seen(request: Request, asked: Any, file: Content | None, told: Told) -> list[Any]:
    """What a model says of the pictures of a request."""
    desk = desk_of(request)
    desk.models.find(asked.model)
    content = await while_there(request, content_of(request, asked.document, file))
    pictures = options_for(PictureOptions, asked, **limits_of(desk.options))
    options = options_for(GenerationOptions, asked)
    seen = InputFile(None, None, content.name, content.data)

    async def run() -> list[Any]:
        async with desk.models.use(asked.model) as offered:
            await _check_count(desk, content, pictures)
            if offered.engine is None:
                model = offered.model
                return await desk.compute.do(lambda: told(model, seen, pictures, options))
            among = _Among(desk, offered, owner_of(request))
            try:
                return await desk.by_hand(told, among, seen, pictures, options)
            finally:
                among.stop()

    return await while_there(request, run())


async def _check_count(desk: Desk, content: Content, options: PictureOptions) -> None:
    async with opened(desk, content, options.password) as source:
        from docai.tasks.options import parse_pages

        pages: Sequence[int] = range(source.page_count)
        if options.pages is not None:
            pages = parse_pages(options.pages, source.page_count)
        if len(pages) > desk.options.max_images:
            most = desk.options.max_images
            raise ApiError(413, f"{len(pages)} pages are more than the {most} images allowed (--max-images)")


class _Among:
    """A model for tasks that ask it one thing after the other; its answers come from the engine, among all others."""

    def __init__(self, desk: Desk, offered: Offered, client: str) -> None:
        assert offered.model is not None
        assert offered.engine is not None
        self.name, self.family, self.sees = offered.name, offered.model.family, offered.model.sees
        self._desk, self._model, self._engine, self._client = desk, offered.model, offered.engine, client
        self._tickets: list[Ticket] = []
        self._stopped = False

    @property
    def at_once(self) -> int:
        """How many questions are best asked before the first answer is there."""
        return min(self._engine.rows, self._desk.options.max_queue_depth)

    def answer(self, messages: Any, images: Any, options: GenerationOptions, **how: Any) -> Ticket:
        """As a model's own."""
        if self._stopped or self._engine.waiting >= self._desk.options.max_queue_depth:
            raise busy("too many requests are waiting for this model")
        request = self._model.request(messages, images, options, **how)
        ticket = self._engine.submit(request, client=self._client, tenant=(self._client, ""))
        self._tickets.append(ticket)
        return ticket

    def stop(self) -> None:
        """Nobody waits any more."""
        self._stopped = True
        for ticket in self._tickets:
            ticket.cancel()
