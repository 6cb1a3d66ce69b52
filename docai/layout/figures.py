"""Figures: embedded pictures and clusters of drawings, with the labels that stand in them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from docai.geometry import clip, grow, inside, overlap_area, union, x_overlap, y_overlap
from docai.layout.body import Body
from docai.types import Box, Line, Page, PageContent, Rule

_SMALLEST = 0.004  # of the page: smaller pictures are logos, icons and bullets
_BACKGROUND = 0.7  # of the page: a picture this large is its background, or the scan itself
_PARTS = 4  # drawings that make a figure: fewer are ornaments of text
_LARGE = 0.02  # of the page: a single drawing of this size, a curve say, makes one too
_NEAR = 0.018  # of the page width, between the parts of a drawing
_SIDE = 0.05  # of the page width, between the drawings and pictures of one figure
_MANY = 300  # drawings that are not compared one by one
_PART_NAME = re.compile(r"^\(?[a-zA-Z]\)$")
_BANNER = 1.2  # times the body size: type on a picture that is no label in it
_TEXT = 0.22  # of a figure's area that long lines of text may cover; more is text with a picture behind it
_LONG = 25  # characters
_PROSE = 2  # long lines within a drawing: it frames text, or lies under it
_LABEL = 15  # characters


def find_figures(page: Page, lines: Sequence[Line], content: PageContent, body: Body) -> list[Box]:
    """Boxes of figures on an upright page. `lines` are those outside of tables."""
    if page.box.area <= 0:
        return []
    pictures = [clip(box, page.box) for box in content.pictures]
    pictures = [box for box in pictures if _SMALLEST < box.area / page.box.area < _BACKGROUND]
    prose = [line.box for line in lines if len(line.text) > _LONG]
    bare = [box for box in content.drawings if not _frames_text(box, prose, body.size)]
    found = _clusters(bare, page)
    clusters = [box for box, parts in found if parts >= _PARTS or box.area > _LARGE * page.box.area]
    drawn = [_with_rules(box, content.rules, page) for box in clusters]
    drawn = [box for box in drawn if _SMALLEST * 2 < box.area / page.box.area < _BACKGROUND]
    figures = [box for box in _merged([*pictures, *drawn]) if not _is_ground(box, lines, body)]
    figures = _neighbours(figures, lines, body, page)
    return [_with_labels(box, lines, body) for box in figures]


def _frames_text(box: Box, prose: Sequence[Box], size: float) -> bool:
    """Whether a drawing holds lines of running text (`prose`, of that size): it is their frame or ground."""
    if box.height < _PROSE * size or box.width < _LONG / 3 * size:
        return False
    return sum(inside(line, box) > 0.9 for line in prose) >= _PROSE


def _clusters(boxes: Sequence[Box], page: Page) -> list[tuple[Box, int]]:
    """Drawings that touch or nearly touch, as (box, number of parts)."""
    near = _NEAR * page.width
    cut = [clip(box, page.box) for box in boxes]
    drawn = [(box, 1) for box in cut if box.area <= _BACKGROUND * page.box.area]
    if len(drawn) > _MANY:
        drawn = _by_cell(drawn, 2 * near)
    found: list[tuple[Box, int]] = []
    for box, number in sorted(drawn, key=lambda item: (item[0].t, item[0].l)):
        merged, parts, rest = box, number, []
        for other, count in found:
            if overlap_area(grow(other, near), grow(merged, 0.1)) > 0:
                merged, parts = union((merged, other)), parts + count
            else:
                rest.append((other, count))
        found = [*rest, (merged, parts)]
    return found


def _by_cell(drawn: Sequence[tuple[Box, int]], size: float) -> list[tuple[Box, int]]:
    """Drawings whose centres lie in one square of a grid made one: maps and plots have many thousands."""
    cells: dict[tuple[int, int], list[Box]] = {}
    for box, _ in drawn:
        cells.setdefault((int(box.cx / size), int(box.cy / size)), []).append(box)
    return [(union(cell), len(cell)) for cell in cells.values()]


def _with_rules(box: Box, rules: Sequence[Rule], page: Page) -> Box:
    """A drawing with the straight strokes that touch it: axes, frames of legends, arrows."""
    reach = grow(box, _NEAR * page.width)
    longest = 1.5 * max(box.width, box.height)
    touching = [
        rule.box
        for rule in rules
        if overlap_area(grow(rule.box, 0.1), reach) > 0 and max(rule.box.width, rule.box.height) < longest
    ]
    return clip(union((box, *touching)), page.box)


def _is_ground(box: Box, lines: Sequence[Line], body: Body) -> bool:
    """Whether a picture lies behind text: a banner with a heading on it, a frame around paragraphs."""
    held = [line for line in lines if inside(line.box, box) > 0.6]
    if not held:
        return False
    if sum(line.box.area for line in held if len(line.text) > _LONG) > _TEXT * box.area:
        return True
    tallest = max(line.size for line in held)
    if box.height < 3.5 * tallest and sum(line.box.width for line in held) > 0.2 * box.width:
        return True
    large = [line for line in held if line.size > _BANNER * body.size and any(c.isalpha() for c in line.text)]
    return len(large) * 2 >= len(held) and box.height < 12 * tallest


def _neighbours(boxes: Sequence[Box], lines: Sequence[Line], body: Body, page: Page) -> list[Box]:
    """Figures with those that stand beside or below each other, with nothing but labels between, made one."""
    prose = [line.box for line in lines if len(line.text) > _LONG or line.size > _BANNER * body.size]
    found: list[Box] = []
    for box in sorted(boxes, key=lambda b: (b.t, b.l)):
        for other in [*found]:
            whole = union((box, other))
            if _are_near(box, other, _SIDE * page.width) and not any(overlap_area(p, whole) > 0 for p in prose):
                found.remove(other)
                box = whole
        found.append(box)
    return found


def _are_near(a: Box, b: Box, reach: float) -> bool:
    beside = y_overlap(a, b) > 0.5 and max(a.l, b.l) - min(a.r, b.r) < reach
    return beside or (x_overlap(a, b) > 0.5 and max(a.t, b.t) - min(a.b, b.b) < reach)


def _with_labels(box: Box, lines: Sequence[Line], body: Body) -> Box:
    """A figure with the short lines that reach over its edge, name its parts or stand along its axes."""
    labels = [line.box for line in lines if 0.25 < inside(line.box, box) < 1 and _is_label(line, box, body)]
    named = [line.box for line in lines if _names_part(line, box, body)]
    return union((box, *labels, *named, *_along_axis(box, lines, body)))


def _along_axis(box: Box, lines: Sequence[Line], body: Body) -> list[Box]:
    """Words with wide gaps between them in a row right below a figure."""
    foot = Box(box.l - body.size, box.b - body.size, box.r + body.size, box.b + 2 * body.size)
    below = [line for line in lines if inside(line.box, foot) == 1 and line.size <= _BANNER * body.size]
    words = sorted((word.box for line in below for word in line.words), key=lambda word: word.l)
    gaps = [after.l - before.r for before, after in pairwise(words)]
    return [line.box for line in below] if len(gaps) > 1 and min(gaps) > body.size else []


def _is_label(line: Line, box: Box, body: Body) -> bool:
    return line.size <= _BANNER * body.size and line.box.width < 0.5 * box.width


def _names_part(line: Line, box: Box, body: Body) -> bool:
    """Whether a line right beside a figure names a part of it: "(b)" below, a word on its left or right."""
    if _PART_NAME.match(line.text):
        return inside(line.box, grow(box, 0, 2 * body.size)) == 1
    gap = max(box.l - line.box.r, line.box.l - box.r)
    level = y_overlap(line.box, box) > 0.9 and line.box.height < 0.8 * box.height
    return level and gap < 1.5 * body.size and len(line.text) <= _LABEL


def _merged(boxes: Sequence[Box]) -> list[Box]:
    out: list[Box] = []
    for box in sorted(boxes, key=lambda b: -b.area):
        if not any(inside(box, other) > 0.7 for other in out):
            out.append(box)
    return out
