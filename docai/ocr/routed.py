"""Region after region: what a detector found on a page is cut out, asked about by its category, and becomes blocks.

The stage is Falcon-OCR's; any model that reads pictures can stand behind it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from docai.geometry import inside, iou
from docai.ocr.parsers import Element, get_parser
from docai.ocr.parsers.markdown import bare_formula, unwrapped
from docai.ocr.parsers.plain import joined
from docai.ocr.routes import PLAIN, SKIPPED, category_of
from docai.types import Block, Box, Label, Page, Region

if TYPE_CHECKING:
    from docai.types import RGB

_UNSEEN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")  # control characters, which no document has
_NESTED = 0.8  # share of a region in a larger one from which on that one tells of it, too
_SAME = 0.8  # intersection over union of two boxes of one thing
_LEAST = 16  # pixels: a patch of Falcon-OCR, and too little to read in any case
_ANYTHING = 4  # pixels: thinner ones are ruling lines
_LONGEST = 1024  # pixels that models make of the longer side of a picture


@dataclass(frozen=True, slots=True)
class Route:
    """A region, and what is asked about it."""

    region: Region
    category: str

    @property
    def asked(self) -> bool:
        """Whether it is asked about at all; pictures are not."""
        return self.category != SKIPPED


def routes_of(regions: Sequence[Region], page: Page) -> list[Route]:
    """What to ask about a page, in the order of its regions; the whole page where there is nothing to ask about."""
    routes = [Route(region, category_of(region)) for region in regions]
    routes = not_nested(apart(routes))
    if any(route.asked for route in routes) or len(routes) > 1:
        return routes
    return [whole_page(page)]


def whole_page(page: Page) -> Route:
    """The page as one region."""
    return Route(Region(page.box, Label.TEXT, 1.0, 0, name=PLAIN), PLAIN)


def apart(routes: Sequence[Route]) -> list[Route]:
    """Of regions that are the same thing only one: the larger, of like sizes the likelier, else the first.

    A box that came under a picture's label and another one is asked about. (The reference throws dice.)
    """

    def rank(place: int) -> tuple[bool, float, float, int]:
        route = routes[place]
        size = round(np.log(max(route.region.box.area, 1e-9)) / 0.1)  # sizes within a tenth are alike
        return not route.asked, -size, -(route.region.score or 0.0), place

    kept: list[int] = []
    for place in sorted(range(len(routes)), key=rank):
        if not any(iou(routes[place].region.box, routes[other].region.box) > _SAME for other in kept):
            kept.append(place)
    return [routes[place] for place in sorted(kept)]


def not_nested(routes: Sequence[Route]) -> list[Route]:
    """Without regions that lie in a larger one, which is read whole. What lies in a picture stays: it is not read.

    From the largest down, so that nothing is left to a region that is itself left to another.
    """
    kept: list[Route] = []
    for route in sorted(routes, key=lambda route: -route.region.box.area):
        box = route.region.box
        larger = (k.region.box for k in kept if k.asked and k.region.box.area > box.area)
        if not any(inside(box, other) > _NESTED for other in larger):
            kept.append(route)
    return [route for route in routes if any(route is one for one in kept)]


def cut_out(page: Page, pixels: RGB, box: Box) -> RGB | None:
    """What a box of a page shows, of the page's pixels (H, W, 3); None where that is next to nothing.

    One that is thinner than models can read gets more of its own paper around it.
    """
    height, width = pixels.shape[:2]
    sx, sy = width / page.width, height / page.height
    left, top = max(0, int(box.l * sx)), max(0, int(box.t * sy))
    right, bottom = min(width, int(box.r * sx + 0.5)), min(height, int(box.b * sy + 0.5))
    if right - left < _ANYTHING or bottom - top < _ANYTHING:
        return None
    return padded(np.ascontiguousarray(pixels[top:bottom, left:right]))


def padded(crop: RGB) -> RGB:
    """A picture none of whose sides is shorter than models read, even where its longer side is made to fit."""
    height, width = crop.shape[:2]
    least = max(_LEAST, -(-_LEAST * max(height, width) // _LONGEST))
    if min(height, width) >= least:
        return crop
    above, beside = max(0, least - height), max(0, least - width)
    edges = np.concatenate([crop[0], crop[-1], crop[:, 0], crop[:, -1]])
    framed = np.empty((height + above, width + beside, 3), np.uint8)
    framed[:] = np.median(edges, axis=0).astype(np.uint8)
    framed[above // 2 : above // 2 + height, beside // 2 : beside // 2 + width] = crop
    return framed


def blocks_of(route: Route, answer: str, page: Page, *, parser: str, source: str) -> list[Block]:
    """An answer about a region as blocks, all with the region's box. Their ids are given later."""
    region = route.region
    return [
        Block(
            id="",
            page=page.index,
            region=replace(region, label=element.label),
            text=element.text if element.table is None else element.text or _table_text(element),
            spans=element.spans,
            table=element.table,
            level=element.level,
            marker=element.marker,
            source=source,
        )
        for element in elements_of(route, answer, parser)
    ]


def _table_text(element: Element) -> str:
    from docai.ocr.assemble import table_text

    assert element.table is not None
    return table_text(element.table)


def elements_of(route: Route, answer: str, parser: str) -> list[Element]:
    """The parts of an answer. What the detector says of a region counts, and what the model says of its parts."""
    label, text = route.region.label, _UNSEEN.sub("", answer).strip()
    if not text:
        return []
    if label is Label.FORMULA:
        return [Element(label, bare_formula(_bare(text)))]
    if label is Label.CODE:
        return [Element(label, _bare(text))]
    found = get_parser(parser)(text, route.region.box)
    if label is Label.TEXT or (label is Label.LIST_ITEM and any(e.label is label for e in found)):
        return found
    if label is Label.TABLE:
        return found if any(e.table for e in found) else [replace(e, label=_less(e.label)) for e in found]
    return [_labelled(found, label)] if all(e.table is None for e in found) else found


def _bare(text: str) -> str:
    """An answer without a fence around it."""
    lines = unwrapped(text).split("\n")
    if lines[0].lstrip().startswith("```"):
        lines = lines[1:]
    if lines and lines[-1].strip() == "```":
        lines = lines[:-1]
    return "\n".join(lines).strip("\n")


def _less(label: Label) -> Label:
    """A label for text where a table was expected and is none."""
    return Label.TEXT if label in (Label.TITLE, Label.HEADING) else label


def _labelled(found: Sequence[Element], label: Label) -> Element:
    """All parts as one of this label: a heading's or a caption's answer is that, whatever marks it has."""
    if len(found) == 1:
        first = found[0]
        keeps = label is Label.LIST_ITEM or first.label is label
        marker = first.marker if keeps or label is Label.FOOTNOTE else ""
        level = first.level if keeps or (label is Label.HEADING and first.label is Label.TITLE) else None
        text = f"{first.marker} {first.text}" if first.marker and not marker else first.text
        spans = first.spans if text == first.text else ()
        return Element(label, text, spans, level=level, marker=marker)
    return Element(label, joined("\n".join(f"{e.marker} {e.text}".strip() for e in found)))
