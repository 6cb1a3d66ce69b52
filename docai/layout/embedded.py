"""The embedded detector: regions from the geometry of lines, rules, pictures and drawings; no model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from docai.geometry import inside, union
from docai.layout.blocks import LineBlock, blocks_of, usual
from docai.layout.figures import find_figures
from docai.layout.furniture import edge_lines
from docai.layout.margins import line_numbers
from docai.layout.order import Flow, columns
from docai.layout.roles import Body, label_of
from docai.layout.rules import pixel_rules
from docai.layout.tables import find_tables
from docai.types import Box, Label, Line, Page, PageContent, Region, Rule
from docai.writing import is_rtl

_RULE_DPI = 150


class EmbeddedDetector:
    """Detector `embedded`."""

    name = "embedded"

    def detect(self, page: Page, lines: Sequence[Line], content: PageContent) -> list[Region]:
        """See `Detector.detect`."""
        tables = find_tables(page, lines, rules_of(page, lines, content), content.fills)
        free = [line for line in lines if not _held(line.box, [t.box for t in tables])]
        figures = [box for box in find_figures(page, free, content) if not _held(box, [t.box for t in tables])]
        free = [line for line in free if not _held(line.box, figures)]
        fixed = [*tables, *(Region(box, Label.FIGURE) for box in figures)]
        regions = [*_text_regions(page, free, fixed)]
        return [replace(region, order=n) for n, region in enumerate(regions)]


def rules_of(page: Page, lines: Sequence[Line], content: PageContent) -> Sequence[Rule]:
    """Ruling lines that the file states or, for text that was read from pixels, those seen in them."""
    recognised = sum(line.source != "text-layer" for line in lines)
    if content.rules or recognised * 2 <= len(lines) or page.render is None:
        return content.rules
    pixels = page.pixels(_RULE_DPI)
    return [Rule(page.from_pixels(r.box, pixels.shape), r.width) for r in pixel_rules(pixels)]


def _held(box: Box, boxes: Sequence[Box]) -> bool:
    return any(inside(box, other) > 0.6 for other in boxes)


def flow_of(lines: Sequence[Line]) -> Flow:
    """How the text of a page runs."""
    total = sum(len(line.text) for line in lines) or 1
    if sum(len(line.text) for line in lines if line.vertical) * 2 > total:
        return Flow.VERTICAL
    return Flow.RIGHT_TO_LEFT if is_rtl("".join(line.text for line in lines)) else Flow.LEFT_TO_RIGHT


def _text_regions(page: Page, lines: Sequence[Line], fixed: Sequence[Region]) -> list[Region]:
    """All regions in reading order: lines grouped by column and block, with tables and figures in their places."""
    turned = [line for line in lines if line.angle]
    numbers = line_numbers(lines)
    edges = edge_lines([line for line in lines if not line.angle], page)
    aside = {id(line) for line in (*turned, *numbers, *(line for line, _ in edges))}
    level = [line for line in lines if id(line) not in aside]
    flow = flow_of(level)
    body = body_of(level)
    items: list[Line | Region] = [*level, *fixed]
    rects = [flow.rect(item.box) for item in items]
    heights = [(rect[3] - rect[1], 1) for rect in rects[: len(level)]]
    regions: list[Region] = []
    for column in columns(rects, em=usual(heights) or None):
        regions += _column_regions(page, [items[i] for i in column], body)
    regions = _with_title(page, regions, body)
    stamps = [Region(line.box, label_of(LineBlock((line,)), body, page)) for line in turned]
    heads = [Region(line.box, label) for line, label in edges if line.box.cy < page.height / 2]
    feet = [Region(line.box, label) for line, label in edges if line.box.cy >= page.height / 2]
    if numbers:
        stamps.append(Region(union(line.box for line in numbers), Label.STAMP))
    return [*heads, *regions, *feet, *stamps]


def body_of(lines: Sequence[Line]) -> Body:
    """The running text: the size and weight that most characters have."""
    weights = [(line.size, len(line.text)) for line in lines]
    total = sum(n for _, n in weights)
    bold = sum(len(line.text) for line in lines if line.bold)
    recognised = sum(len(line.text) for line in lines if line.source != "text-layer")
    mono = sum(len(line.text) for line in lines if line.mono)
    fonts: dict[str, int] = {}
    for line in lines:
        fonts[line.font] = fonts.get(line.font, 0) + len(line.text)
    font = max(fonts, key=lambda name: fonts[name], default="")
    return Body(usual(weights) or 10.0, bold * 2 > total, recognised * 2 > total, mono * 2 > total, font)


def _column_regions(page: Page, items: Sequence[Line | Region], body: Body) -> list[Region]:
    regions: list[Region] = []
    run: list[Line] = []
    for item in [*items, None]:
        if isinstance(item, Line):
            run.append(item)
            continue
        blocks = blocks_of(run, recognised=body.recognised)
        regions += [Region(block.box, label_of(block, body, page), name=str(block.size)) for block in blocks]
        run = []
        if item is not None:
            regions.append(item)
    return regions


def _with_title(page: Page, regions: list[Region], body: Body) -> list[Region]:
    """The largest heading of a first page is the document's title, where it is large enough."""
    headings = [r for r in regions if r.label is Label.HEADING and page.index == 0 and r.box.t < 0.5 * page.height]
    largest = max(headings, key=lambda r: float(r.name), default=None)
    out = []
    for region in regions:
        title = largest is not None and region is largest and float(region.name) > 1.3 * body.size
        label = Label.TITLE if title else region.label
        out.append(replace(region, label=label, name=""))
    return out
