"""Answers about a whole page that say where each part of it lies become blocks with boxes of their own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from docai.geometry import clip, outlines, union
from docai.ocr.assemble import assemble
from docai.ocr.parsers.nemotron import Piece, markdown_of, pieces
from docai.ocr.routed import Route, blocks_of
from docai.ocr.routes import PLAIN
from docai.preprocess.centred import Placement
from docai.types import Block, Box, Label, Line, Page, PageContent, Region

if TYPE_CHECKING:
    from docai.preprocess.sizes import Size

CANVAS: Size = (2048, 1664)  # Nemotron-Parse 2.0's, in pixels


@dataclass(frozen=True, slots=True)
class Shown:
    """What a model was shown: a part of a page, and how many pixels (height, width) it had. `canvas`: the model's."""

    page: Page
    region: Region
    size: Size
    canvas: Size = CANVAS

    def place(self, x: float, y: float) -> tuple[float, float]:
        """A place in shares of what was shown, in the page's unit."""
        box = self.region.box
        return box.l + x * box.width, box.t + y * box.height

    def on_canvas(self, x: float, y: float) -> tuple[float, float]:
        """The same of a place in shares of the model's canvas."""
        return self.place(*Placement.of(self.size, self.canvas).back(x, y))


def nemotron_blocks(answer: str, shown: Shown, source: str) -> list[Block]:
    """Blocks in the order in which the model wrote them, which is that of reading."""
    return [block for order, piece in enumerate(pieces(answer)) for block in _blocks(piece, order, shown, source)]


def _blocks(piece: Piece, order: int, shown: Shown, source: str) -> list[Block]:
    region = Region(_box(piece, shown), piece.label, None, order, name=piece.name or "")
    if piece.label is not Label.FIGURE:
        made = blocks_of(Route(region, PLAIN), markdown_of(piece), shown.page, parser="markdown", source=source)
        return made or [Block("", shown.page.index, region, source=source)]
    whole = Route(replace(region, label=Label.TEXT), PLAIN)
    inner = blocks_of(whole, piece.text, shown.page, parser="markdown", source=source)
    tables = [block for block in inner if block.table is not None]  # the numbers of a chart
    text = "\n".join(block.text for block in inner if block.table is None)
    return [Block("", shown.page.index, region, text=text, source=source), *tables]


def _box(piece: Piece, shown: Shown) -> Box:
    """From corner to corner; what was shown where there are none, and up to its end where the second is missing."""
    if piece.start is None:
        return shown.region.box
    ends = [shown.on_canvas(*corner) for corner in (piece.start, piece.end or (1.0, 1.0))]
    (left, right), (top, bottom) = (sorted(axis) for axis in zip(*ends, strict=True))
    return clip(Box(left, top, right, bottom), shown.region.box)


def florence_blocks(answer: str, shown: Shown, source: str) -> list[Block]:
    """Lines with their quadrilaterals, put together as those of any engine; text without places as it stands."""
    from docai.layout.detector import get_detector
    from docai.vlm.locations import florence

    page, lines = shown.page, list[Line]()
    for found in florence(answer, "quads"):
        areas = outlines([shown.place(x, y) for x, y in found.rings[0]], shown.region.box)
        if areas and found.label:
            box = union(Box(x, y, x, y) for x, y in areas[0])
            lines.append(Line(found.label, box, size=box.height, source=source))
    if not lines:
        return blocks_of(Route(shown.region, PLAIN), answer, page, parser="plain", source=source)
    regions = get_detector("embedded").detect(page, lines, PageContent())
    return assemble(page, lines, PageContent(), regions)


Located = Callable[[str, Shown, str], list[Block]]  # (answer, what was shown, source) -> blocks
LOCATED: dict[str, Located] = {"nemotron": nemotron_blocks, "florence": florence_blocks}
