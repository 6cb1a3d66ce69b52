"""Plain text in reading order; tables as aligned columns."""

from __future__ import annotations

import unicodedata
from itertools import groupby

from docai.export.figures import is_prose
from docai.export.flow import Piece, pieces, unfolded
from docai.export.grid import text_rows
from docai.export.options import ExportOptions
from docai.types import Document, Label, Table
from docai.writing import clock

_WIDEST = 60  # columns of a table cell; longer ones break the alignment rather than the page


def render(document: Document, options: ExportOptions) -> str:
    """The document as plain text: paragraphs, a form feed between pages where page breaks are wanted."""
    flow = pieces(document, options)
    timed = any(result.page.time is not None for result in document.pages)
    if not options.page_breaks and not timed:
        return _page(flow)
    pages = [list(group) for _, group in groupby(flow, key=lambda piece: piece.page.index)]
    return ("\f" if options.page_breaks else "\n").join(_stamped(page) for page in pages if _page(page) or not timed)


def _stamped(flow: list[Piece]) -> str:
    """A page, with the time since when a recording shows it."""
    time = flow[0].page.time
    return _page(flow) if time is None else f"[{clock(time)}]\n\n{_page(flow)}"


def _page(flow: list[Piece]) -> str:
    out, in_list = "", False
    for piece in flow:
        text = _said(piece)
        if text:
            item = piece.label is Label.LIST_ITEM
            out += ("\n" if item and in_list else "\n\n") if out else ""
            out += text
            in_list = item
    return out + "\n" if out else ""


def _said(piece: Piece) -> str:
    return "\n\n".join(part for part in map(_body, unfolded([piece])) if part)


def _body(piece: Piece) -> str:
    block = piece.block
    if block.table is not None:
        return aligned(block.table)
    if piece.label is Label.FIGURE:
        return block.text if is_prose(block) else ""
    marked = f"{block.marker} {piece.text}" if block.marker else piece.text
    indent = "  " * (block.level or 0) if piece.label is Label.LIST_ITEM else ""
    return indent + marked.strip("\n")


def aligned(table: Table) -> str:
    """A table with its columns one below the other; a cell of several lines takes several lines."""
    rows = [[cell.strip().split("\n") for cell in row] for row in text_rows(table)]
    widths = [
        min(_WIDEST, max((width(line) for row in rows for line in row[col]), default=0)) for col in range(table.cols)
    ]
    return "\n".join(line for row in rows for line in _row_lines(row, widths))


def _row_lines(row: list[list[str]], widths: list[int]) -> list[str]:
    height = max((len(cell) for cell in row), default=1)
    lines = [[cell[n] if n < len(cell) else "" for cell in row] for n in range(height)]
    padded = (
        "  ".join(text + " " * (w - width(text)) for text, w in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )
    return list(padded)


def width(text: str) -> int:
    """Columns that a text takes in a terminal: two for wide East Asian characters, none for combining marks."""
    return sum(
        0
        if unicodedata.combining(c) or unicodedata.category(c) == "Cf"
        else 2
        if unicodedata.east_asian_width(c) in "WF"
        else 1
        for c in text
    )
