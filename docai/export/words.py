"""Every word with its place, for formats that lay text over a picture of the page."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from docai.geometry import clip, displayed_quad
from docai.types import Block, Box, Cell, Line, Page, Point, Style, Table
from docai.writing import is_rtl


@dataclass(frozen=True, slots=True)
class PlacedWord:
    """A word of a line, and whether a space follows it."""

    text: str
    box: Box
    space: bool
    styles: frozenset[Style] = frozenset()


def lines_of(block: Block) -> list[Line]:
    """A block's lines; where it has a text only (a model's), its text lines spread evenly over its box."""
    if block.lines or block.table is not None:
        return list(block.lines) or _cell_lines(block)
    texts = [text for text in block.text.split("\n") if text.strip()]
    step = block.box.height / max(1, len(texts))
    tops = (block.box.t + n * step for n in range(len(texts)))
    return [
        Line(text.strip(), replace(block.box, t=top, b=top + step), confidence=block.confidence, source=block.source)
        for text, top in zip(texts, tops, strict=True)
    ]


def _cell_lines(block: Block) -> list[Line]:
    if block.table is None:
        return []
    cells = block.table.cells
    unknown = all(cell.box == block.box for cell in cells)  # a model says what cells hold, not where they lie
    placed = [(cell, _in_grid(cell, block.table, block.box) if unknown else cell.box) for cell in cells]
    return [
        Line(" ".join(cell.text.split()), box, confidence=block.confidence, source=block.source)
        for cell, box in placed
        if cell.text.strip() and box.area > 0
    ]


def _in_grid(cell: Cell, table: Table, box: Box) -> Box:
    """Where a cell lies in a table whose rows and columns are all alike."""
    width, height = box.width / table.cols, box.height / table.rows
    left, top = box.l + cell.col * width, box.t + cell.row * height
    return Box(left, top, left + cell.colspan * width, top + cell.rowspan * height)


def words_of(line: Line) -> list[PlacedWord]:
    """A line's words in logical order; where the line has none, its text cut at spaces and spread over its box."""
    words = _measured(line) if line.words else None
    return words if words is not None else _spread(line)


def _measured(line: Line) -> list[PlacedWord] | None:
    """The words that came with the line, if they make up its text."""
    placed, at = [], 0
    for word, following in zip(line.words, (*line.words[1:], None), strict=True):
        start = line.text.find(word.text, at)
        if start < 0 or line.text[at:start].strip():
            return None
        at = start + len(word.text)
        placed.append(
            PlacedWord(word.text, word.box, following is not None and line.text[at : at + 1].isspace(), word.styles)
        )
    return None if line.text[at:].strip() else placed


def _spread(line: Line) -> list[PlacedWord]:
    text, placed, at = line.text, [], 0
    words = text.split()
    along = line.vertical or line.angle in (90, 270)
    backwards = line.angle in (180, 270) or (not along and is_rtl(text))
    for word in words:
        start = text.index(word, at)
        at = start + len(word)
        a, b = start / len(text), at / len(text)
        a, b = (1 - b, 1 - a) if backwards else (a, b)
        placed.append(PlacedWord(word, _share(line.box, a, b, along=along), at < len(text.rstrip())))
    return placed


def _share(box: Box, start: float, end: float, *, along: bool) -> Box:
    if along:
        return replace(box, t=box.t + start * box.height, b=box.t + end * box.height)
    return replace(box, l=box.l + start * box.width, r=box.l + end * box.width)


# --- pixels of the page as displayed


@dataclass(frozen=True, slots=True)
class PixelFrame:
    """A page as displayed, in whole pixels: of its own for images, at `dpi` for pages in points."""

    page: Page
    dpi: int

    @property
    def size(self) -> tuple[int, int]:
        """(width, height) in pixels."""
        width, height = self.page.size if self.page.rotation % 180 == 0 else self.page.size[::-1]
        scale = self.page.scale(self.dpi)
        return math.ceil(width * scale), math.ceil(height * scale)

    def box(self, box: Box) -> tuple[int, int, int, int]:
        """l, t, r, b around an upright box, at least one pixel large and within the page."""
        scale, (width, height) = self.page.scale(self.dpi), self.size
        corners = self._corners(clip(box, self.page.box))
        xs, ys = [x * scale for x, _ in corners], [y * scale for _, y in corners]
        left, top = (max(0, min(edge - 1, math.floor(min(vs) + 0.01))) for edge, vs in ((width, xs), (height, ys)))
        right, bottom = (min(edge, math.ceil(max(vs) - 0.01)) for edge, vs in ((width, xs), (height, ys)))
        return left, top, max(right, left + 1), max(bottom, top + 1)

    def _corners(self, box: Box) -> tuple[Point, ...]:
        """The box's corners as displayed; two opposite ones say it all where the page does not lean."""
        if self.page.skew:
            return displayed_quad(self.page, box)
        return self.page.to_displayed(box.l, box.t), self.page.to_displayed(box.r, box.b)

    def angle(self, line: Line) -> float:
        """Degrees counter-clockwise by which a line's text is turned as displayed."""
        return round((self.page.rotation - line.angle - self.page.skew) % 360, 2)
