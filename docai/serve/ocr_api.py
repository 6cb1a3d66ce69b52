"""`POST /v1/ocr` in the shape of Mistral's OCR API."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

import orjson
from fastapi import APIRouter, Request
from pydantic import Field
from starlette.responses import Response

from docai.errors import DocaiError
from docai.serve.answers import answering, options_of, question_of, using
from docai.serve.asked import body_of, content_of, described, limits_of, options_for
from docai.serve.chat import schema_of
from docai.serve.desk import Desk, desk_of, while_there
from docai.serve.errors import ApiError, reply
from docai.serve.media import Content
from docai.serve.messages import Conversation
from docai.serve.ocr_shape import Shape
from docai.serve.pages import check_engine, document
from docai.serve.route import Route
from docai.serve.schemas import ResponseFormat, Said
from docai.tasks.options import OcrOptions
from docai.types import Document

if TYPE_CHECKING:
    from docai.render.document import Source

router = APIRouter(route_class=Route, tags=["documents"])

_MOST_TEXT = 60_000  # characters of a document that a model reads for an annotation


class OcrRequest(Said):
    """`POST /v1/ocr`."""

    model: str | None = None
    id: str | None = None
    document: Any = None
    pages: Annotated[list[Annotated[int, Field(ge=0)]], Field(max_length=10_000)] | str | None = None
    include_image_base64: bool | None = None
    image_limit: Annotated[int, Field(ge=0)] | None = None
    image_min_size: Annotated[int, Field(ge=0)] | None = None
    bbox_annotation_format: ResponseFormat | None = None
    document_annotation_format: ResponseFormat | None = None
    document_annotation_prompt: str | None = None
    table_format: Literal["markdown", "html"] | None = None
    extract_header: bool = False
    extract_footer: bool = False
    include_blocks: bool = False
    confidence_scores_granularity: Literal["page", "block"] | None = None


@router.post("/v1/ocr", openapi_extra=described(OcrRequest))
async def ocr(request: Request) -> Response:
    """The pages of a document as markdown, with the pictures on them."""
    asked, file = await body_of(request, OcrRequest)
    desk = desk_of(request)
    annotator = _annotator(asked, desk)
    content = await while_there(request, content_of(request, asked.document, file))
    return await while_there(request, _read(request, asked, content, annotator))


def _engine(asked: OcrRequest, desk: Desk) -> str:
    """What reads: `mistral-ocr-latest` and the like are the embedded engine."""
    name = asked.model or "embedded"
    if name.startswith("mistral-ocr"):
        return "embedded"
    check_engine(desk, name)
    return name


def _annotator(asked: OcrRequest, desk: Desk) -> str | None:
    """The model that annotates; None where nothing is to be annotated. Raises ApiError 422 where there is none."""
    if asked.document_annotation_format is None and asked.bbox_annotation_format is None:
        return None
    if not desk.models.offered:
        raise ApiError(
            422, "annotations need a model, and this server has none; start it with docai serve --model NAME",
            code="model_not_found", param="document_annotation_format",
        )  # fmt: skip
    return asked.model if asked.model in desk.models.offered else next(iter(desk.models.offered))


async def _read(request: Request, asked: OcrRequest, content: Content, annotator: str | None) -> Response:
    desk = desk_of(request)
    options = options_for(OcrOptions, asked, **limits_of(desk.options), model=_engine(asked, desk), pages=_pages(asked))
    read, source = await document(desk, content, options)
    failures = [page for page in read.pages if page.outcome.exit_code]
    if failures and len(failures) == len(read.pages):
        raise ApiError(422, "; ".join(failures[0].outcome.reasons) or "no page can be read", code="unreadable_input")
    pages, pictures = await desk.by_hand(_shaped, asked, read, source)
    if annotator is not None and asked.bbox_annotation_format is not None:
        await _annotate_pictures(request, asked, annotator, pages, pictures)
    told = None
    if annotator is not None and asked.document_annotation_format is not None:
        told = await _document_annotation(request, asked, annotator, read)
    return reply(
        {
            "pages": pages,
            "model": asked.model or options.model,
            "document_annotation": told,
            "usage_info": {"pages_processed": len(pages), "doc_size_bytes": len(content.data)},
        }
    )


def _shaped(asked: OcrRequest, read: Document, source: Source) -> tuple[list[dict[str, Any]], dict[str, bytes]]:
    """The pages as they are answered, and their pictures by name. The source is closed afterwards."""
    try:
        shape = Shape(asked, read, source)
        return shape.pages(), shape.pictures
    finally:
        source.close()


def _pages(asked: OcrRequest) -> str | None:
    """Pages counted from 0, as options count them. Raises ApiError."""
    given = asked.pages
    if given is None:
        return None
    if isinstance(given, str):
        try:
            pairs = [[int(number) for number in part.split("-")] for part in given.split(",")]
            return ",".join("-".join(str(number + 1) for number in pair) for pair in pairs)
        except ValueError:
            raise ApiError(422, "pages: expected numbers, or a text such as 0-2,5", param="pages") from None
    if not given:
        raise ApiError(422, "pages: expected some; leave it out for all", param="pages")
    return ",".join(str(number + 1) for number in given)


# --- annotations


async def _document_annotation(request: Request, asked: OcrRequest, model: str, read: Document) -> str:
    """What a model makes of the text of a document, as JSON by the schema that was asked for."""
    from docai.export.formats import export

    text = await desk_of(request).by_hand(export, read, "markdown")
    assert isinstance(text, str)
    prompt = asked.document_annotation_prompt or "Extract from this document what the schema asks for."
    messages = [{"role": "user", "content": f"{prompt}\n\n{text[:_MOST_TEXT]}"}]
    return await _annotation(request, model, Conversation(messages), asked.document_annotation_format)


async def _annotate_pictures(
    request: Request, asked: OcrRequest, model: str, pages: list[dict[str, Any]], contents: dict[str, bytes]
) -> None:
    """Have a model say of each picture what the schema asks for."""
    from docai.vlm.pictures import picture_of

    parts = [{"type": "image"}, {"type": "text", "text": "Describe this image as the schema asks for."}]
    for page in pages:
        for image in page["images"]:
            seen = await desk_of(request).by_hand(picture_of, contents[image["id"]])
            talk = Conversation([{"role": "user", "content": parts}], [seen])
            image["image_annotation"] = await _annotation(request, model, talk, asked.bbox_annotation_format)


async def _annotation(request: Request, model: str, talk: Conversation, wanted: ResponseFormat | None) -> str:
    try:
        options = options_of({"json_schema": schema_of(wanted) or {"type": "object"}, "max_tokens": 2048})
        question = question_of(request, talk, options)
        async with using(request, model, question) as offered, answering(request, offered, question) as answers:
            (answer,) = await answers.whole()
    except DocaiError as error:
        raise ApiError(422, f"annotations: {error}", code="annotation") from error
    try:
        orjson.loads(answer.text)
    except orjson.JSONDecodeError:
        raise ApiError(422, "annotations: the model's answer did not come to its end", code="annotation") from None
    return answer.text
