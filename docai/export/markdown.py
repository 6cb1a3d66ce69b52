"""Markdown (GitHub's flavour)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby
from typing import TYPE_CHECKING

from docai.export.figures import alt_text, crop, data_uri, is_latex, is_prose, picture_names, pixels_of, png_of
from docai.export.flow import Piece, pieces, unfolded
from docai.export.footnotes import Footnotes, match_footnotes
from docai.export.grid import html_table, text_rows
from docai.export.inline import escape, inline
from docai.export.lists import Item, nested
from docai.export.options import ExportOptions, as_url, image_folder
from docai.types import Block, Document, Label, Page, Table
from docai.writing import clock

if TYPE_CHECKING:
    from docai.types import RGB

_PRINTED_RULE = re.compile(r"^(?:[-=_*~.·]\s?){5,}$")  # a line of signs, as receipts part their sections


def render(document: Document, options: ExportOptions) -> str:
    """The document as markdown, without furniture unless asked for."""
    return Markdown(document, options).text()


class Markdown:
    """Writes one document."""

    def __init__(self, document: Document, options: ExportOptions) -> None:
        self.options = options
        self.flow = pieces(document, options)
        self.folder = image_folder(document, options)
        self.names = picture_names(document) if options.images != "none" else {}
        self.footnotes: Footnotes = match_footnotes(list(unfolded(self.flow)))
        self.seen: set[int] = set()
        self.drawn: tuple[int, RGB | None] = (-1, None)

    def text(self) -> str:
        parts = [part for part in self._parts() if part]
        return "\n\n".join(parts) + "\n" if parts else ""

    def _parts(self) -> Iterator[str]:
        """Pieces that are set apart by an empty line; the items of a list make one."""
        for (page, is_list), grouped in groupby(self.flow, key=self._group):
            group = list(grouped)
            if page is not None and page not in self.seen:
                self.seen.add(page)
                yield from self._begun(group[0].page)
            if is_list:
                yield "\n".join(nested(map(self._item, group)))
            else:
                for piece in group:
                    yield from self.piece(piece)

    def _begun(self, page: Page) -> Iterator[str]:
        """What stands before a page."""
        if self.options.page_breaks:
            yield f"<!-- page {page.index + 1} -->"
        if page.time is not None:
            yield f"**[{clock(page.time)}]**"

    def _group(self, piece: Piece) -> tuple[int | None, bool]:
        apart = self.options.page_breaks or piece.page.time is not None
        return (piece.page.index if apart else None, piece.label is Label.LIST_ITEM)

    def _item(self, piece: Piece) -> Item:
        return Item(piece.block.marker, piece.block.level or 0, self._inline(piece))

    def piece(self, piece: Piece) -> Iterator[str]:
        """A piece by itself, with its captions, as parts that an empty line sets apart."""
        yield from map(self.body, unfolded([piece]))

    def body(self, piece: Piece) -> str:
        """A piece without its captions."""
        block = piece.block
        match block.label:
            case Label.TITLE | Label.HEADING:
                return heading(self._inline(piece), block)
            case Label.TABLE if block.table is not None:
                return table_markdown(block.table)
            case Label.LIST_ITEM:
                return "  " * (block.level or 0) + "\n".join(nested([self._item(piece)]))
            case Label.CODE:
                return fenced(block.text)
            case Label.FIGURE | Label.FORMULA:
                return self._picture(piece)
            case Label.FOOTNOTE if block.id in self.footnotes.notes:
                note = self.footnotes.notes[block.id]
                return f"[^{note.name}]: " + inline(note.text, note.spans).replace("\n", "\n    ")
        return self._inline(piece)

    def _inline(self, piece: Piece) -> str:
        if _PRINTED_RULE.match(piece.text):
            return "---"
        return inline(piece.text, piece.spans, self.footnotes.references.get(piece.block.id, ()))

    def _picture(self, piece: Piece) -> str:
        block = piece.block
        if is_latex(block):
            return display_math(block.text)
        if block.id in self.names:
            return self._image(block, piece.page)
        return self._inline(piece) if block.kind == "formula" or is_prose(block) else ""

    def _image(self, block: Block, page: Page) -> str:
        alt = inline(alt_text(block)).replace("[", "\\[").replace("]", "\\]").replace("\n", " ")
        target = self._target(block, page)
        image = f"![{alt}]({target})" if target else ""
        return "\n\n".join(part for part in (image, inline(block.text) if is_prose(block) else "") if part)

    def _target(self, block: Block, page: Page) -> str | None:
        if self.options.images == "ref":
            return as_url(f"{self.folder}/{self.names[block.id]}")
        pixels = self._pixels(page)
        return None if pixels is None else data_uri(png_of(crop(page, pixels, block.box)), "image/png")

    def _pixels(self, page: Page) -> RGB | None:
        """The page's pixels, kept for the next figure on it."""
        if self.drawn[0] != page.index:
            self.drawn = page.index, pixels_of(page, self.options.dpi)
        return self.drawn[1]


def heading(text: str, block: Block) -> str:
    """An ATX heading; a title is of level 1, a heading without a known level of level 2."""
    level = block.level or (1 if block.label is Label.TITLE else 2)
    line = re.sub(r"\s+", " ", text)
    return f"{'#' * min(6, max(1, level))} {line}" if line else ""


def fenced(text: str) -> str:
    """Code in a fence that is longer than any in it."""
    longest = max((len(ticks) for ticks in re.findall("`{3,}", text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}\n{text.rstrip()}\n{fence}"


def display_math(latex: str) -> str:
    """LaTeX as a formula of its own; a model's own delimiters are replaced, and nothing in it can open a tag."""
    bare = re.sub(r"^(?:\$\$?|\\\[|\\\()\s*|\s*(?:\$\$?|\\\]|\\\))$", "", latex.strip())
    closed = re.sub(r"<(?=[A-Za-z/!?])", "< ", re.sub(r"\n\s*\n", "\n", bare.strip()))
    return f"$$\n{closed}\n$$"


def table_markdown(table: Table) -> str:
    """A GitHub table; HTML where cells span or the header has several rows. The first row serves as header."""
    if table.has_spans or table.header_rows > 1:
        return html_table(table)
    rows = ["| " + " | ".join(cell_markdown(text) for text in row) + " |" for row in text_rows(table)]
    return "\n".join([*rows[:1], "|" + " --- |" * table.cols, *rows[1:]])


def cell_markdown(text: str) -> str:
    """A cell's text in one line, its pipes escaped."""
    lines = [escape(line.strip()) for line in text.strip().splitlines()]
    return "<br>".join(lines).replace("|", "\\|")
