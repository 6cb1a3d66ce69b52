"""The embedded detector: regions from the geometry of lines, rules, pictures and drawings; no model."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from docai.geometry import inside, union
from docai.layout.blocks import LineBlock, blocks_of
from docai.layout.body import Body, body_of, usual
from docai.layout.detector import Sheet
from docai.layout.figures import find_figures
from docai.layout.formulas import split_formulas
from docai.layout.furniture import edge_lines, without
from docai.layout.gutters import parted
from docai.layout.margins import line_numbers
from docai.layout.order import Flow, columns
from docai.layout.pictures import find_pictures, finer_than_needed
from docai.layout.roles import label_column, set_apart
from docai.layout.rows import Rect
from docai.layout.rules import pixel_rules
from docai.layout.tables import find_tables
from docai.layout.titles import Found, with_title
from docai.layout.weight import weighed
from docai.types import Box, Label, Line, Page, PageContent, Region, Rule
from docai.writing import is_rtl

_DPI = 150  # at which recognised pages are looked at once more
_SEPARATOR = 0.4  # of the page width
_RTL = re.compile("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufeff]")  # letters that run right to left
_MARGIN = 0.12  # of the page width, on either side


class EmbeddedDetector:
    """Detector `embedded`."""

    name = "embedded"
    threshold = 0.0
    reads = True
    batch = 1

    def detect_all(self, sheets: Sequence[Sheet]) -> list[list[Region]]:
        """See `Detector.detect_all`."""
        return [self.detect(sheet.page, sheet.lines, sheet.content) for sheet in sheets]

    def detect(self, page: Page, lines: Sequence[Line], content: PageContent) -> list[Region]:
        """See `Detector.detect`."""
        lines, content = _seen(page, lines, content)
        tables = find_tables(page, lines, content.rules, content.fills)
        held = [table.box for table in tables]
        free = [line for line in lines if not _held(line.box, held)]
        body = body_of(lines)
        figures = [box for box in find_figures(page, free, content, body) if not _held(box, held)]
        free = [line for line in free if not _held(line.box, figures)]
        fixed = [*tables, *(Region(box, Label.FIGURE) for box in figures)]
        regions = _Sheet(page, body, content.rules).regions(free, fixed)
        return [replace(region, order=n) for n, region in enumerate(regions)]


def _seen(page: Page, lines: Sequence[Line], content: PageContent) -> tuple[Sequence[Line], PageContent]:
    """Lines and content, with what only pixels show where the text was read from them: rules, pictures, bold type."""
    recognised = sum(line.source != "text-layer" for line in lines)
    if recognised * 2 <= len(lines) or page.render is None:
        return lines, content
    pixels = page.pixels(_DPI)
    lines = weighed(page, lines, pixels)
    pixels = finer_than_needed(pixels)
    rules = content.rules or tuple(Rule(page.from_pixels(r.box, pixels.shape), r.width) for r in pixel_rules(pixels))
    pictures = find_pictures(page, pixels, [line.box for line in lines])
    return lines, replace(content, rules=rules, pictures=tuple(pictures))


def _held(box: Box, boxes: Sequence[Box]) -> bool:
    return any(inside(box, other) > 0.6 for other in boxes)


def flow_of(lines: Sequence[Line]) -> Flow:
    """How the text of a page runs."""
    total = sum(len(line.text) for line in lines) or 1
    if sum(len(line.text) for line in lines if line.vertical) * 2 > total:
        return Flow.VERTICAL
    text = "".join(line.text for line in lines if _RTL.search(line.text))
    return Flow.RIGHT_TO_LEFT if len(text) * 2 > total and is_rtl(text) else Flow.LEFT_TO_RIGHT


@dataclass(frozen=True, slots=True)
class _Sheet:
    """A page whose regions are being found: `body` is its running text."""

    page: Page
    body: Body
    rules: Sequence[Rule]

    def regions(self, lines: Sequence[Line], fixed: Sequence[Region]) -> list[Region]:
        """All regions in reading order; tables and figures (`fixed`) in their places, furniture around the rest."""
        numbers = line_numbers(lines)
        turned = [line for line in lines if line.angle]
        level = without(lines, [*numbers, *turned])
        edges = edge_lines(level, self.page, self.body, self.rules)
        level = without(level, [line for line, _ in edges])
        middle = self.page.height / 2
        heads = [Region(line.box, label) for line, label in edges if line.box.cy < middle]
        feet = [Region(line.box, label) for line, label in edges if line.box.cy >= middle]
        stamps = [self._turned(line) for line in turned]
        if numbers:
            stamps.append(Region(union(line.box for line in numbers), Label.STAMP))
        return [*heads, *self._content(level, fixed), *feet, *stamps]

    def _turned(self, line: Line) -> Region:
        """A line along another side: in the margin it is a stamp."""
        width = self.page.width
        margin = line.box.r < _MARGIN * width or line.box.l > (1 - _MARGIN) * width
        return Region(line.box, Label.STAMP if margin else Label.TEXT)

    def _content(self, lines: Sequence[Line], fixed: Sequence[Region]) -> list[Region]:
        flow = flow_of(lines)
        if flow is Flow.LEFT_TO_RIGHT:
            lines = parted(lines)
        items: list[Line | Region] = [*lines, *fixed]
        rects = [flow.rect(item.box) for item in items]
        em = usual((bottom - top, 1) for _, top, _, bottom in rects[: len(lines)])
        heads = [n for n, line in enumerate(lines) if self._stands_out(line)]
        body = self.body if flow is Flow.LEFT_TO_RIGHT else body_of([flowing(line, flow) for line in lines])
        found: list[Found] = []
        for column in columns(rects, heads=heads, separators=self._separators(flow, fixed), em=em or None):
            found += self._column([items[i] for i in column], flow, body)
        return with_title(found, self.page, self.body)

    def _stands_out(self, line: Line) -> bool:
        """Whether a line looks like a heading."""
        larger = line.size > (1 + 2 * self.body.tolerance) * self.body.size
        return larger or (line.bold and not self.body.bold)

    def _separators(self, flow: Flow, fixed: Sequence[Region]) -> list[Rect]:
        """Rules that run far enough to part what is above from what is below, outside of tables and figures."""
        boxes = [rule.box for rule in self.rules if rule.horizontal and rule.box.width > _SEPARATOR * self.page.width]
        held = [region.box for region in fixed]
        return [] if flow is Flow.VERTICAL else [flow.rect(box) for box in boxes if not _held(box, held)]

    def _column(self, items: Sequence[Line | Region], flow: Flow, body: Body) -> list[Found]:
        """The regions of one column."""
        found: list[Found] = []
        run: list[Line] = []
        for item in [*items, None]:
            if isinstance(item, Line):
                run.append(item)
                continue
            found += self._run(run, flow, body)
            run = []
            if item is not None:
                found.append(Found(item))
        return found

    def _run(self, lines: Sequence[Line], flow: Flow, body: Body) -> list[Found]:
        """Regions of lines with nothing between them."""
        found: list[Found] = []
        for formula, part in split_formulas(lines):
            if formula:
                found.append(Found(Region(union(line.box for line in part), Label.FORMULA)))
                continue
            moved = [flowing(line, flow) for line in part]
            home = {id(line): origin for line, origin in zip(moved, part, strict=True)}
            flowed = blocks_of(moved, body)
            blocks = [LineBlock(tuple(home[id(line)] for line in block.lines)) for block in flowed]
            labels = label_column(blocks, body, self.page, self.rules, set_apart(flowed))
            found += [Found(Region(b.box, label), b) for b, label in zip(blocks, labels, strict=True)]
        return found


def flowing(line: Line, flow: Flow) -> Line:
    """A line in flow coordinates, in which all text runs left to right."""
    if flow is Flow.LEFT_TO_RIGHT:
        return line
    words = tuple(replace(word, box=Box(*flow.rect(word.box))) for word in line.words)
    return replace(line, box=Box(*flow.rect(line.box)), words=words, vertical=False)
