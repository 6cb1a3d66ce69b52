"""`POST /v1/ocr` in the shape of Mistral's OCR API."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
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
from docai.serve.pages import check_engine, document
from docai.serve.route import Route
from docai.serve.schemas import ResponseFormat, Said
from docai.tasks.options import OcrOptions
from docai.types import Block, Box, Document, Label, PageResult

if TYPE_CHECKING:
    from docai.render.document import Source

router = APIRouter(route_class=Route, tags=["documents"])

DPI = 150  # of the pixels in which pictures and their places are given
_MOST_TEXT = 60_000  # characters of a document that a model reads for an annotation
_HEADER = frozenset({Label.PAGE_HEADER})
_FOOTER = frozenset({Label.PAGE_FOOTER, Label.PAGE_NUMBER})


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
    shape = _Shape(asked, read, source)
    try:
        pages = await desk.by_hand(shape.pages)
        if annotator is not None and asked.bbox_annotation_format is not None:
            await _annotate_pictures(request, asked, annotator, pages, shape.pictures)
        told = None
        if annotator is not None and asked.document_annotation_format is not None:
            told = await _document_annotation(request, asked, annotator, read)
    finally:
        await desk.by_hand(source.close)
    return reply(
        {
            "pages": pages,
            "model": asked.model or options.model,
            "document_annotation": told,
            "usage_info": {"pages_processed": len(pages), "doc_size_bytes": len(content.data)},
        }
    )


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


@dataclass(frozen=True, slots=True)
class _Picture:
    """A picture on a page: its name, its place in pixels and, where it is wanted, its content as PNG."""

    id: str
    place: tuple[int, int, int, int]
    data: bytes


class _Shape:
    """A document in the shape of the answer. It makes pictures: not for the event loop."""

    def __init__(self, asked: OcrRequest, read: Document, source: Source) -> None:
        from docai.export.figures import attached

        self._asked, self._document = asked, attached(read, source)
        self.pictures: dict[str, bytes] = {}
        self._left = asked.image_limit

    def pages(self) -> list[dict[str, Any]]:
        return [self._page(result) for result in self._document.pages]

    def _page(self, result: PageResult) -> dict[str, Any]:
        from docai.export.figures import picture_names
        from docai.export.formats import ExportOptions, export

        alone = replace(self._document, pages=(result,))
        markdown = export(alone, "markdown", ExportOptions(images="ref", image_dir=".", dpi=DPI))
        assert isinstance(markdown, str)
        for name in picture_names(alone).values():
            markdown = markdown.replace(f"](./{name})", f"]({name})")
        pictures = list(self._pictures(result, alone))
        scale = result.page.scale(DPI)
        size = {"width": round(result.page.width * scale), "height": round(result.page.height * scale)}
        tables = self._tables(result)
        said: dict[str, Any] = {
            "index": result.page.index,
            "markdown": self._without_tables(markdown, tables),
            "images": [self._picture(picture) for picture in pictures],
            "tables": [{"id": name, "content": text, "format": self._asked.table_format} for name, text, _ in tables],
            "hyperlinks": sorted({link.target for link in result.links}),
            "header": self._furniture(result, _HEADER) if self._asked.extract_header else None,
            "footer": self._furniture(result, _FOOTER) if self._asked.extract_footer else None,
            "dimensions": {"dpi": DPI if result.page.unit == "pt" else 72, **size},
        }
        if result.outcome.reasons:
            said["docai"] = {"status": result.outcome.status.value, "reasons": list(result.outcome.reasons)}
        return said

    def _pictures(self, result: PageResult, alone: Document) -> Iterator[_Picture]:
        from docai.export.figures import crop, picture_names, pixels_of, png_of

        names = picture_names(alone)
        blocks = [block for block in result.blocks if block.id in names and self._wanted(result, block)]
        pixels = pixels_of(result.page, DPI) if blocks else None
        for block in blocks:
            if pixels is None or self._left == 0:
                return
            self._left = None if self._left is None else self._left - 1
            data = png_of(crop(result.page, pixels, block.box))
            self.pictures[names[block.id]] = data
            yield _Picture(names[block.id], _place(block.box, result.page.scale(DPI)), data)

    def _wanted(self, result: PageResult, block: Block) -> bool:
        least, scale = self._asked.image_min_size or 0, result.page.scale(DPI)
        return min(block.box.width, block.box.height) * scale >= least

    def _picture(self, picture: _Picture) -> dict[str, Any]:
        left, top, right, bottom = picture.place
        content = None
        if self._asked.include_image_base64:
            content = "data:image/png;base64," + base64.b64encode(picture.data).decode()
        return {
            "id": picture.id,
            "top_left_x": left,
            "top_left_y": top,
            "bottom_right_x": right,
            "bottom_right_y": bottom,
            "image_base64": content,
            "image_annotation": None,
        }

    def _tables(self, result: PageResult) -> list[tuple[str, str, str]]:
        """Tables apart from the markdown, where that was asked for: name, content, and what stands in the markdown."""
        from docai.export.formats import ExportOptions, export

        if self._asked.table_format is None:
            return []
        suffix = "html" if self._asked.table_format == "html" else "md"
        tables: list[tuple[str, str, str]] = []
        for block in result.blocks:
            if block.table is None:
                continue
            alone = replace(self._document, pages=(replace(result, blocks=(replace(block, children=()),)),))
            standing = export(alone, "markdown", ExportOptions())
            assert isinstance(standing, str)
            name = f"tbl-{len(tables)}.{suffix}"
            content = _html_table(block) if suffix == "html" else standing.strip()
            tables.append((name, content, standing.strip()))
        return tables

    @staticmethod
    def _without_tables(markdown: str, tables: Sequence[tuple[str, str, str]]) -> str:
        for name, _, standing in tables:
            if standing and standing in markdown:
                markdown = markdown.replace(standing, f"[{name}]({name})", 1)
        return markdown

    @staticmethod
    def _furniture(result: PageResult, labels: frozenset[Label]) -> str | None:
        return "\n".join(block.text for block in result.blocks if block.label in labels) or None


def _place(box: Box, scale: float) -> tuple[int, int, int, int]:
    left, top, right, bottom = (max(0, round(value * scale)) for value in box.as_tuple())
    return left, top, right, bottom


def _html_table(block: Block) -> str:
    """A table as HTML, nothing but its cells."""
    from html import escape

    assert block.table is not None
    rows: list[list[str]] = [[] for _ in range(block.table.rows)]
    for cell in block.table.cells:
        name = "th" if cell.header else "td"
        spans = "".join(
            f' {kind}="{size}"' for kind, size in (("rowspan", cell.rowspan), ("colspan", cell.colspan)) if size > 1
        )
        rows[cell.row].append(f"<{name}{spans}>{escape(cell.text)}</{name}>")
    return "<table>" + "".join(f"<tr>{''.join(row)}</tr>" for row in rows) + "</table>"


# --- annotations


async def _document_annotation(request: Request, asked: OcrRequest, model: str, read: Document) -> str:
    """What a model makes of the text of a document, as JSON by the schema that was asked for."""
    from docai.export.formats import export

    text = export(read, "markdown")
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
            talk = Conversation([{"role": "user", "content": parts}], [picture_of(contents[image["id"]])])
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
