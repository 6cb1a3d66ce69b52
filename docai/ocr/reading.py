"""A page's lines, from its text layer where that can be trusted and from its pixels elsewhere, on the upright page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from docai.geometry import clip, grow, inside, overlap_area, rotate_point, turn_box, union
from docai.ocr.engines import Recognised, Recognizer
from docai.ocr.text_layer import TextLayer, read_text_layer
from docai.types import Box, Line, Link, Page, PageContent, Rule, Word

DPI = 200  # of PDF pages that are read from pixels: the models see lines of 48 pixels, type of 10 pt has 28
_THUMBNAIL_DPI = 40
_WHOLE = 0.5  # of the page: from here on it is read as a whole
_NEAR = 0.02  # of the page's height: areas this close are read together
_MARGIN = 0.005  # of the page's height: read around an area, so that no letter is cut
_SMALLEST_PX = 8  # pixels: nothing can be read in less
_LOW = 0.6  # mean confidence below which a page is not to be relied on


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """How pages are read. `turn`: (rotation, skew) that is known already; None: find out. `dpi` None: `DPI`."""

    ocr: Literal["auto", "force", "never"]
    engine: Recognizer
    dpi: int | None = None
    turn: tuple[int, float] | None = None


@dataclass(frozen=True, slots=True)
class Reading:
    """The upright page, its lines, and what the file says of it in the same frame."""

    page: Page
    lines: tuple[Line, ...]
    content: PageContent
    reasons: tuple[str, ...] = ()


def read_page(page: Page, content: PageContent, options: ReadOptions) -> Reading:
    """All lines of a displayed page. Reasons say where the result should not be relied on."""
    layer = _layer(page, content, options.ocr)
    whole = sum(clip(box, page.box).area for box in layer.untrusted) >= _WHOLE * page.box.area
    if layer.untrusted and options.ocr == "never":
        return _from_layer(page, content, layer, (*layer.reasons, "text in pixels was not read (--ocr never)"), options)
    if whole:
        return _from_pixels(page, content, layer, options)
    reading = _from_layer(page, content, layer, layer.reasons, options)
    areas = [turn_box(box, reading.page.rotation, page.size) for box in layer.untrusted]
    found, reasons = _read_areas(reading.page, areas, options)
    new = [line for line in found if not any(inside(line.box, old.box) > 0.5 for old in reading.lines)]
    return replace(reading, lines=(*reading.lines, *new), reasons=(*reading.reasons, *reasons))


def _layer(page: Page, content: PageContent, ocr: str) -> TextLayer:
    if ocr == "force" or page.unit == "px":
        return TextLayer(untrusted=(page.box,))

    def thumbnail() -> NDArray[np.uint8]:
        red, green, blue = np.moveaxis(page.pixels(_THUMBNAIL_DPI).astype(np.uint16), 2, 0)
        return np.asarray((red + green + blue) // 3, np.uint8)

    return read_text_layer(page, content, thumbnail)


def _from_layer(
    page: Page, content: PageContent, layer: TextLayer, reasons: Sequence[str], options: ReadOptions
) -> Reading:
    rotation, skew = options.turn or (_sideways(layer.lines), 0.0)
    upright = page.turned(rotation, skew)
    lines = tuple(turn_line(line, page, rotation, skew) for line in layer.lines)
    return Reading(upright, lines, turn_content(page, content, rotation, skew), tuple(reasons))


def _sideways(lines: Sequence[Line]) -> int:
    """The clockwise turn after which most of the text runs left to right."""
    letters: Counter[int] = Counter()
    for line in lines:
        letters[line.angle] += len(line.text)
    angle = max(letters, key=lambda a: letters[a], default=0)
    return -angle % 360


def _from_pixels(page: Page, content: PageContent, layer: TextLayer, options: ReadOptions) -> Reading:
    turn = options.turn or (0, 0.0)
    given = page.turned(*turn)
    pixels = given.pixels(options.dpi or DPI)
    read = options.engine.read(pixels, straighten=options.turn is None)
    rotation, skew = (read.rotation, read.skew) if options.turn is None else turn
    upright = page.turned(rotation, skew)
    shape = pixels.shape[:2] if read.rotation % 180 == 0 else pixels.shape[1::-1]
    lines = [_in_page_units(line, upright, shape) for line in read.lines]
    kept = [turn_line(line, page, rotation, skew) for line in layer.lines]
    new = [line for line in lines if not any(inside(line.box, old.box) > 0.5 for old in kept)]
    reasons = (*layer.reasons, *read.reasons, *confidence_reasons(read))
    return Reading(upright, (*kept, *new), turn_content(page, content, rotation, skew), reasons)


def _read_areas(page: Page, areas: Sequence[Box], options: ReadOptions) -> tuple[list[Line], list[str]]:
    """Lines in some areas of the upright page, and what there is to say of them; neighbours are read at once."""
    lines: list[Line] = []
    reasons: dict[str, None] = {}
    pixels = page.pixels(options.dpi or DPI) if areas else None
    for group in grouped(areas, _NEAR * page.height):
        assert pixels is not None
        read = read_part(page, pixels, union(group), options.engine)
        wanted = [grow(area, _MARGIN * page.height) for area in group]
        lines += [line for line in read.lines if any(inside(line.box, area) > 0.5 for area in wanted)]
        reasons |= dict.fromkeys((*read.reasons, *confidence_reasons(read)))
    return lines, list(reasons)


def grouped(boxes: Sequence[Box], near: float) -> list[list[Box]]:
    """Boxes by neighbourhood: those less than `near` apart share a group."""
    groups: list[list[Box]] = []
    for box in boxes:
        reach = grow(box, near)
        touching = [group for group in groups if any(overlap_area(reach, other) > 0 for other in group)]
        groups = [group for group in groups if group not in touching]
        groups.append([*(other for group in touching for other in group), box])
    return groups


def read_part(page: Page, pixels: NDArray[np.uint8], part: Box, engine: Recognizer) -> Recognised:
    """What an engine reads in a part of the upright page, in the page's unit."""
    scale = pixels.shape[1] / page.width
    reach = clip(grow(part, _MARGIN * page.height), page.box)
    left, top, right, bottom = (round(v * scale) for v in reach.as_tuple())
    crop = pixels[top:bottom, left:right]
    if min(crop.shape[:2]) < _SMALLEST_PX:
        return Recognised(())
    read = engine.read(np.ascontiguousarray(crop), straighten=False)
    moved = (_moved(line, left, top) for line in read.lines)
    return replace(read, lines=tuple(_in_page_units(line, page, pixels.shape) for line in moved))


def _moved(line: Line, x: float, y: float) -> Line:
    def move(box: Box) -> Box:
        return Box(box.l + x, box.t + y, box.r + x, box.b + y)

    words = tuple(replace(word, box=move(word.box)) for word in line.words)
    return replace(line, box=move(line.box), words=words)


def _in_page_units(line: Line, page: Page, shape: Sequence[int]) -> Line:
    words = tuple(replace(word, box=page.from_pixels(word.box, shape)) for word in line.words)
    size = line.size * page.height / shape[0]
    return replace(line, box=page.from_pixels(line.box, shape), words=words, size=round(size, 2))


def confidence_reasons(read: Recognised) -> tuple[str, ...]:
    """A warning where the engine was not sure of what it read."""
    scores = [(line.confidence, len(line.text)) for line in read.lines if line.confidence is not None]
    total = sum(length for _, length in scores)
    mean = sum(score * length for score, length in scores) / total if total else 1.0
    poor = sum(score < _LOW for score, _ in scores)
    return (f"low confidence: {mean:.2f}, {poor} of {len(scores)} lines below {_LOW:g}",) if mean < _LOW else ()


def turn_line(line: Line, page: Page, rotation: int, skew: float) -> Line:
    """A line of the displayed `page`, in the frame of `page.turned(rotation, skew)`."""
    if not rotation and not skew:
        return line
    words = tuple(Word(w.text, _turned(w.box, page, rotation, skew), w.styles) for w in line.words)
    return replace(line, box=_turned(line.box, page, rotation, skew), words=words, angle=(line.angle + rotation) % 360)


def turn_content(page: Page, content: PageContent, rotation: int, skew: float) -> PageContent:
    """What a file says of its displayed page, in the frame of `page.turned(rotation, skew)`; the glyphs stay behind."""

    def turned(box: Box) -> Box:
        return _turned(box, page, rotation, skew)

    if not rotation and not skew:
        return replace(content, glyphs=None)
    return replace(
        content,
        glyphs=None,
        rules=tuple(Rule(turned(rule.box), rule.width) for rule in content.rules),
        fills=tuple(map(turned, content.fills)),
        pictures=tuple(map(turned, content.pictures)),
        drawings=tuple(map(turned, content.drawings)),
        links=tuple(Link(turned(link.box), link.target) for link in content.links),
    )


def _turned(box: Box, page: Page, rotation: int, skew: float) -> Box:
    box = turn_box(box, rotation, page.size)
    if not skew:
        return box
    width, height = page.turned(rotation).size
    corners = ((box.l, box.t), (box.r, box.t), (box.r, box.b), (box.l, box.b))
    turned = [rotate_point(x, y, -skew, (width / 2, height / 2)) for x, y in corners]
    return union(Box(x, y, x, y) for x, y in turned)
