"""Documents made by hand, for the tests of the output formats."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from docai.types import (
    Block,
    Box,
    Cell,
    Document,
    Label,
    Line,
    Page,
    PageOutcome,
    PageResult,
    Region,
    Span,
    Status,
    Table,
    Word,
)

SIZE = (600.0, 800.0)


def pixels(dpi: float, rotation: int, skew: float) -> Any:
    """A page of white with a dark square, as a renderer would give it."""
    scale = dpi / 72
    width, height = (SIZE[1], SIZE[0]) if rotation % 180 else SIZE
    page = np.full((round(height * scale), round(width * scale), 3), 255, np.uint8)
    page[10:40, 10:40] = 30
    return page


def page(index: int = 0, **more: Any) -> Page:
    return Page(index, **({"size": SIZE, "unit": "pt", "source": "dir/doc.pdf", "render": pixels} | more))


def line(text: str, left: float = 50, top: float = 100, **more: Any) -> Line:
    """A line set in a type of 6 x 10 points, with a box for each word."""
    words, x = [], left
    for word in text.split():
        words.append(Word(word, Box(x, top, x + 6 * len(word), top + 10)))
        x += 6 * (len(word) + 1)
    return Line(text, Box(left, top, left + 6 * len(text), top + 10), tuple(words), size=10, **more)


class Blocks:
    """Makes blocks one below the other, numbered as docai numbers them."""

    def __init__(self, page: int = 0) -> None:
        self.page, self.count, self.top = page, 0, 50.0

    def __call__(self, text: str = "", label: Label = Label.TEXT, **more: Any) -> Block:
        self.count += 1
        self.top += 20
        box = Box(50, self.top, 50 + 6 * max(10, len(text)), self.top + 10)
        lines = more.pop("lines", (line(text, 50, self.top),) if text else ())
        return Block(f"p{self.page + 1}-b{self.count}", self.page, Region(box, label), text, lines, **more)


def table(rows: list[list[str]], header: int = 1) -> Table:
    cells = [
        Cell(r, c, text, Box(50 + 60 * c, 100 + 20 * r, 110 + 60 * c, 120 + 20 * r), header=r < header)
        for r, row in enumerate(rows)
        for c, text in enumerate(row)
    ]
    return Table(len(rows), max(len(row) for row in rows), tuple(cells))


def spanned() -> Table:
    """Two header rows, one cell over two columns, one over two rows."""
    box = Box(50, 100, 110, 120)
    cells = (
        Cell(0, 0, "Item", box, rowspan=2, header=True),
        Cell(0, 1, "Price <EUR>", box, colspan=2, header=True),
        Cell(1, 1, "net", box, header=True),
        Cell(1, 2, "gross", box, header=True),
        Cell(2, 0, "A & B", box),
        Cell(2, 1, "1\n2", box),
    )
    return Table(3, 3, cells)


def document(*pages: list[Block], **more: Any) -> Document:
    results = tuple(PageResult(page(n), tuple(blocks)) for n, blocks in enumerate(pages))
    return Document("dir/doc.pdf", results, **more)


def rich() -> Document:
    """Two pages with a block of every kind."""
    a, b = Blocks(0), Blocks(1)
    first = [
        a("Running head", Label.PAGE_HEADER),
        a("A Title", Label.TITLE, level=1),
        a("1 Introduction", Label.HEADING, level=2),
        a("Bold word and a link.", spans=(Span(0, 4, "bold"), Span(16, 20, link="https://example.org/"))),
        a("first", Label.LIST_ITEM, marker="•"),
        a("inner", Label.LIST_ITEM, marker="-", level=1),
        a("second", Label.LIST_ITEM, marker="•"),
        a("x = 1\n  y = 2", Label.CODE),
        a("", Label.TABLE, table=table([["Name", "Sum"], ["a|b", "1"]])),
        a("Table 1: sums", Label.CAPTION),
        replace(a("", Label.FIGURE), children=(a("Figure 1: a <b>bar</b>", Label.CAPTION),)),
        a("E = mc2", Label.FORMULA),
        a("Noted here1 and goes on auto-", spans=(Span(10, 11, "superscript"),)),
        a("1 The note.", Label.FOOTNOTE),
        a("1", Label.PAGE_NUMBER),
    ]
    second = [
        b("matic, to its end.", continues=True),
        b(
            "مرحبا بالعالم",
            confidence=0.9,
            source="ocr:embedded",
            lines=(line("مرحبا بالعالم", 50, 90, confidence=0.9),),
        ),
        b("", Label.TABLE, table=spanned()),
        b(r"\frac{1}{2}", Label.FORMULA, source="vlm:falcon-ocr"),
    ]
    degraded = PageOutcome(Status.DEGRADED, ("script not covered (Arabic)",))
    pages = (PageResult(page(0), tuple(first)), PageResult(page(1), tuple(second), degraded, 0.5))
    return Document("dir/doc.pdf", pages, {"Title": "A Title"})
