"""`/v1/parse`, `/v1/detect`, `/v1/caption`, `/v1/ground`: by the same options as the command line."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import orjson
from fastapi import APIRouter, Request
from starlette.responses import Response

from docai.errors import DocaiError
from docai.export.formats import FORMATS, format_of
from docai.layout.detector import EMBEDDED
from docai.ocr.wanted import while_wanted
from docai.render.inputs import InputFile
from docai.serve.among import among, told
from docai.serve.asked import body_of, content_of, described, limits_of, model_for, options_for
from docai.serve.desk import Desk, desk_of, owner_of, while_there
from docai.serve.detectors import detector_of
from docai.serve.errors import ApiError, reply, translated
from docai.serve.media import Content
from docai.serve.models import name_of
from docai.serve.pages import check_engine, document, exported, opened, watched
from docai.serve.route import Route
from docai.tasks.options import (
    CaptionOptions,
    DetectOptions,
    GroundOptions,
    OcrOptions,
    ParseOptions,
    PictureOptions,
)
from docai.tasks.raw import RAW
from docai.types import Status
from docai.vlm.request import GenerationOptions

if TYPE_CHECKING:
    from docai.render.document import Source
    from docai.tasks.ocr import Layout
    from docai.vlm.request import Generation

router = APIRouter(route_class=Route, tags=["documents"])

_DOCUMENT: dict[str, Any] = {"document": (Any, None)}
Format = Literal[(*FORMATS, RAW)]  # type: ignore[valid-type]
ParseRequest = model_for(
    "ParseRequest",
    ParseOptions,
    layout=(Any, None),
    format=(Format, "json"),
    images=(Literal["none", "embed"], "none"),
    furniture=(Literal["drop", "keep"], "drop"),
    **_DOCUMENT,
)
_OF_OCR = ("multi_page", "crop_to_patches")
DetectRequest = model_for("DetectRequest", DetectOptions, **_DOCUMENT)

CaptionRequest = model_for(
    "CaptionRequest",
    CaptionOptions,
    PictureOptions,
    GenerationOptions,
    leave=_OF_OCR,
    model=(str | None, None),
    **_DOCUMENT,
)
GroundRequest = model_for(
    "GroundRequest",
    GroundOptions,
    PictureOptions,
    GenerationOptions,
    leave=_OF_OCR,
    model=(str | None, None),
    phrases=(str | list[str], []),
    **_DOCUMENT,
)


@router.post("/v1/parse", openapi_extra=described(ParseRequest))
async def parse(request: Request) -> Response:
    """A document in any format: `format` is one of those of `docai parse`."""
    asked, file = await body_of(request, ParseRequest)
    desk = desk_of(request)
    options, layout = await desk.by_hand(parse_options, asked, desk)
    if asked.format == RAW and asked.layout is not None:
        raise ApiError(400, "format: raw is the answer about whole pages; leave layout out", param="layout")
    content = await while_there(request, content_of(request, asked.document, file))
    if asked.format == RAW:
        return await while_there(request, _raw(desk, content, options, owner_of(request)))
    return await while_there(request, _parsed(desk, content, asked, options, layout))


def parse_options(asked: Any, desk: Desk) -> tuple[OcrOptions, Layout | None]:
    """How a document is to be read, and the layout that came with the request. Raises ApiError.

    It looks at files: not for the event loop.
    """
    from docai.tasks.ocr import layout_from

    chosen = options_for(ParseOptions, asked, **limits_of(desk.options))
    check_engine(desk, chosen.model)
    given = asked.layout
    named = given in (None, "auto") or (isinstance(given, str) and _names_detector(given))
    if asked.multi_page and given is not None:
        raise ApiError(400, "multi_page: reads whole pages; leave layout out", param="layout")
    detector = detector_of(desk, None if given == "auto" else given, "layout") if named else EMBEDDED
    layout = None if asked.multi_page else detector
    options = options_for(OcrOptions, asked, **limits_of(desk.options), layout=layout)
    if named:
        return options, None
    try:
        return options, layout_from(given.encode() if isinstance(given, str) else orjson.dumps(given))
    except DocaiError as error:
        told = translated(error)
        told.param = "layout"
        raise told from error


def _names_detector(given: str) -> bool:
    """Whether a text is a name, and not JSON."""
    return given.strip()[:1] not in ("{", "[", "")


async def _parsed(desk: Desk, content: Content, asked: Any, options: OcrOptions, layout: Layout | None) -> Response:
    read, source = await document(desk, content, options, layout)
    data = await exported(desk, read, asked.format, source, images=asked.images, furniture=asked.furniture)
    return in_format(data, asked.format, read.outcome.status.value)


async def _raw(desk: Desk, content: Content, options: OcrOptions, owner: str) -> Response:
    """What a model writes about pages, word for word: `format: raw`. Raises ApiError for an engine."""
    from docai.tasks.raw import as_text, raw_pages

    if options.engine:
        raise ApiError(400, f"format: raw is what a model writes; {options.model} is an engine", param="format")

    def answers(model: Any, source: Source) -> list[Generation]:
        return [answer for _, answer in raw_pages(source, options, model)]

    async with (
        desk.models.use(options.model) as offered,
        opened(desk, content, options.password) as source,
    ):
        with among(offered, owner, 1) as asked:
            found = await told(desk, offered, asked, partial(answers, asked, source))
    status = Status.OK if all(answer.finish_reason == "stop" for answer in found) else Status.DEGRADED
    return in_format(as_text(answer.text for answer in found), "text", status.value)


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
    detector = await desk.by_hand(detector_of, desk, asked.model)
    options = options_for(DetectOptions, asked, **limits_of(desk.options), model=detector)
    content = await while_there(request, content_of(request, asked.document, file))
    return await while_there(request, _detected(desk, content, options))


async def _detected(desk: Desk, content: Content, options: DetectOptions) -> Response:
    from docai.tasks.detect import finder_for
    from docai.tasks.ocr import chosen_pages

    pages: list[dict[str, Any]] = []
    errors: list[dict[str, Any]] = []
    with desk.pages.room.held(), desk.detectors.use(options.model):
        async with opened(desk, content, options.password) as source:
            indices = chosen_pages(source, options)
            finder = await desk.pages.do(partial(finder_for, options))
            for start in range(0, len(indices), finder.detector.batch):
                some = indices[start : start + finder.detector.batch]
                found, failed = await watched(desk, desk.pages, source, partial(_regions, source, options, some))
                pages += found
                errors += failed
    desk.metrics.count("regions_total", sum(len(page["detections"]) for page in pages))
    return reply({"object": "list", "data": pages, "errors": errors})


def _regions(
    source: Source, options: DetectOptions, indices: Sequence[int]
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    from docai.layout.detections import detections_json
    from docai.tasks.detect import detect_pages

    some = replace(options, pages=",".join(str(index + 1) for index in indices))
    errors: list[str] = []
    with while_wanted(lambda: not source.interrupted):
        found = list(detect_pages(source, some, on_error=lambda error: errors.append(str(error))))
    missing = {index + 1 for index in indices} - {page.page.index + 1 for page in found}
    told = [{"page": page, "message": message} for page, message in zip(sorted(missing), errors, strict=False)]
    return [orjson.loads(detections_json(replace(page, model=name_of(page.model)))) for page in found], told


# --- with a model


@router.post("/v1/caption", openapi_extra=described(CaptionRequest))
async def caption(request: Request) -> Response:
    """What pictures show: what `docai caption --json` prints, as a list."""
    from docai.tasks.caption import captions

    asked, file = await body_of(request, CaptionRequest)
    what = options_for(CaptionOptions, asked)

    def ask(model: Any, seen: InputFile, pictures: PictureOptions, options: GenerationOptions) -> list[Any]:
        return [one.as_json(model.name) for one in captions(model, seen, what, pictures, options)]

    return reply({"object": "list", "data": await _seen(request, asked, file, ask)})


@router.post("/v1/ground", openapi_extra=described(GroundRequest))
async def ground(request: Request) -> Response:
    """Where things are in pictures: what `docai ground` prints, as a list."""
    from docai.tasks.ground import grounded

    asked, file = await body_of(request, GroundRequest)
    what = options_for(GroundOptions, asked)
    phrases = [asked.phrases] if isinstance(asked.phrases, str) else asked.phrases

    def ask(model: Any, seen: InputFile, pictures: PictureOptions, options: GenerationOptions) -> list[Any]:
        return [one.as_json(model.name) for one in grounded(model, seen, phrases, what, pictures, options)]

    return reply({"object": "list", "data": await _seen(request, asked, file, ask)})


Told = Callable[[Any, InputFile, PictureOptions, GenerationOptions], list[Any]]


async def _seen(request: Request, asked: Any, file: Content | None, ask: Told) -> list[Any]:
    """What a model says of the pictures of a request."""
    desk = desk_of(request)
    desk.models.find(asked.model)
    content = await while_there(request, content_of(request, asked.document, file))
    pictures = options_for(PictureOptions, asked, **limits_of(desk.options))
    options = options_for(GenerationOptions, asked)
    seen = InputFile(None, None, content.name, content.data)

    async def run() -> list[Any]:
        async with desk.models.use(asked.model) as offered:
            count = await _page_count(desk, content, pictures)
            with among(offered, owner_of(request), count) as model:
                return list(await told(desk, offered, model, partial(ask, model, seen, pictures, options)))

    return await while_there(request, run())


async def _page_count(desk: Desk, content: Content, options: PictureOptions) -> int:
    """How many pages are looked at. Raises ApiError 413 for more than are allowed."""
    from docai.tasks.options import parse_pages

    async with opened(desk, content, options.password) as source:
        count = source.page_count if options.pages is None else len(parse_pages(options.pages, source.page_count))
    if count > desk.options.max_images:
        raise ApiError(413, f"{count} pages are more than the {desk.options.max_images} images allowed (--max-images)")
    return count
