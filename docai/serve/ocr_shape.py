"""Documents in the shape in which Mistral's OCR API answers: markdown, pictures, tables and blocks of each page."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import TYPE_CHECKING, Any

from docai.types import Block, Box, Document, Label, PageResult

if TYPE_CHECKING:
    from docai.render.document import Source
    from docai.serve.ocr_api import OcrRequest

DPI = 150  # of the pixels in which pictures and their places are given
_HEADER = frozenset({Label.PAGE_HEADER})
_FOOTER = frozenset({Label.PAGE_FOOTER, Label.PAGE_NUMBER})
# What blocks are called there; pictures and tables are told apart by what is given of them.
_TYPES: dict[Label, str] = {
    Label.TITLE: "title",
    Label.HEADING: "title",
    Label.LIST_ITEM: "list",
    Label.FORMULA: "equation",
    Label.CODE: "code",
    Label.CAPTION: "caption",
    Label.ASIDE: "aside_text",
    Label.STAMP: "aside_text",
    Label.PAGE_HEADER: "header",
    Label.PAGE_FOOTER: "footer",
    Label.PAGE_NUMBER: "footer",
}


@dataclass(frozen=True, slots=True)
class _Picture:
    """A picture on a page: its name, its place in pixels and, where it is wanted, its content as PNG."""

    id: str
    place: tuple[int, int, int, int]
    data: bytes


@dataclass(frozen=True, slots=True)
class _Table:
    """A table apart from the markdown: its name, its content, how it would stand there, and the id of its block."""

    id: str
    content: str
    standing: str
    block: str


class Shape:
    """A document in the shape of the answer. It makes pictures: not for the event loop.

    `pictures`: those that were given, as PNG by their names.
    """

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
            "markdown": _without_tables(markdown, tables),
            "images": [self._picture(picture) for picture in pictures],
            "tables": [{"id": t.id, "content": t.content, "format": self._asked.table_format} for t in tables],
            "hyperlinks": sorted({link.target for link in result.links}),
            "header": self._furniture(result, _HEADER) if self._asked.extract_header else None,
            "footer": self._furniture(result, _FOOTER) if self._asked.extract_footer else None,
            "dimensions": {"dpi": DPI if result.page.unit == "pt" else 72, **size},
        }
        if self._asked.include_blocks:
            said["blocks"] = list(self._blocks(result, alone, {table.block: table for table in tables}))
        if self._asked.confidence_scores_granularity is not None:
            said["confidence_scores"] = _page_scores(result.blocks)
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

    def _tables(self, result: PageResult) -> list[_Table]:
        """Tables apart from the markdown, where that was asked for."""
        if self._asked.table_format is None:
            return []
        html = self._asked.table_format == "html"
        tables: list[_Table] = []
        for block in result.blocks:
            if block.table is not None:
                standing = self._standing(result, block)
                name = f"tbl-{len(tables)}.{'html' if html else 'md'}"
                tables.append(_Table(name, _html_table(block) if html else standing, standing, block.id))
        return tables

    def _standing(self, result: PageResult, block: Block) -> str:
        """A block as it stands in the markdown, without its caption."""
        from docai.export.formats import ExportOptions, export

        alone = replace(self._document, pages=(replace(result, blocks=(replace(block, children=()),)),))
        standing = export(alone, "markdown", ExportOptions(furniture="keep"))
        assert isinstance(standing, str)
        return standing.strip()

    def _blocks(self, result: PageResult, alone: Document, tables: Mapping[str, _Table]) -> Iterator[dict[str, Any]]:
        """All blocks in reading order, captions behind what they belong to."""
        from docai.export.figures import picture_names

        names = picture_names(alone)
        for block in (part for whole in result.blocks for part in (whole, *whole.children)):
            left, top, right, bottom = _place(block.box, result.page.scale(DPI))
            said: dict[str, Any] = {"type": _TYPES.get(block.label, "text"), "content": ""}
            if block.id in names:
                said |= {"type": "image", "image_id": names[block.id], "content": f"![]({names[block.id]})"}
            elif block.table is not None:
                table = tables.get(block.id)
                content = self._standing(result, block) if table is None else table.content
                said |= {"type": "table", "table_id": None if table is None else table.id, "content": content}
            else:
                said["content"] = self._standing(result, block)
            said |= {"top_left_x": left, "top_left_y": top, "bottom_right_x": right, "bottom_right_y": bottom}
            if self._asked.confidence_scores_granularity == "block":
                said["confidence_scores"] = _block_scores(block)
            yield said

    @staticmethod
    def _furniture(result: PageResult, labels: frozenset[Label]) -> str | None:
        return "\n".join(block.text for block in result.blocks if block.label in labels) or None


def _without_tables(markdown: str, tables: Sequence[_Table]) -> str:
    for table in tables:
        if table.standing and table.standing in markdown:
            markdown = markdown.replace(table.standing, f"[{table.id}]({table.id})", 1)
    return markdown


def _page_scores(blocks: Sequence[Block]) -> dict[str, Any] | None:
    """How sure it is of a page; None where nothing on it was read from pixels: a text layer has no doubts."""
    known = [block.confidence for block in blocks if block.confidence is not None]
    if not known:
        return None
    return {"average_page_confidence_score": fmean(known), "minimum_page_confidence_score": min(known)}


def _block_scores(block: Block) -> dict[str, Any] | None:
    """How sure it is of a block: of its words, as a whole, and of what it is, where a detector says so."""
    if block.confidence is None and block.region.score is None:
        return None
    return {
        "average_content_confidence_score": block.confidence,
        "minimum_content_confidence_score": None,
        "block_type_confidence_score": block.region.score,
    }


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
