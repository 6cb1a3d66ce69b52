"""Figures: embedded pictures and clusters of drawings, with the labels that stand in them."""

from __future__ import annotations

from collections.abc import Sequence

from docai.geometry import grow, inside, overlap_area, union
from docai.types import Box, Line, Page, PageContent

_SMALLEST = 0.004  # of the page: smaller pictures are logos, icons and bullets
_BACKGROUND = 0.8  # of the page: a picture this large is its background, or the scan itself
_PARTS = 4  # drawings that make a figure: fewer are ornaments of text


def find_figures(page: Page, lines: Sequence[Line], content: PageContent) -> list[Box]:
    """Boxes of figures on an upright page."""
    pictures = [box for box in content.pictures if _SMALLEST < box.area / page.box.area < _BACKGROUND]
    clusters = [box for box, parts in _clusters(content.drawings, page) if parts >= _PARTS]
    drawn = [box for box in clusters if _SMALLEST * 2 < box.area / page.box.area < _BACKGROUND]
    drawn = [box for box in drawn if not _is_text_frame(box, lines)]
    return _merged([*pictures, *drawn])


def _clusters(boxes: Sequence[Box], page: Page) -> list[tuple[Box, int]]:
    """Drawings that touch or nearly touch, as (box, number of parts)."""
    near = 0.012 * page.width
    found: list[tuple[Box, int]] = []
    for box in sorted(boxes, key=lambda b: (b.t, b.l)):
        merged, parts, rest = box, 1, []
        for other, count in found:
            if overlap_area(grow(other, near), grow(merged, 0.1)) > 0:
                merged, parts = union((merged, other)), parts + count
            else:
                rest.append((other, count))
        found = [*rest, (merged, parts)]
    return found


def _is_text_frame(box: Box, lines: Sequence[Line]) -> bool:
    """A frame or ornament around running text is no figure: text lines fill it."""
    held = [line for line in lines if inside(line.box, box) > 0.6]
    return sum(line.box.area for line in held if len(line.text) > 25) > 0.25 * box.area


def _merged(boxes: list[Box]) -> list[Box]:
    out: list[Box] = []
    for box in sorted(boxes, key=lambda b: -b.area):
        if not any(inside(box, other) > 0.7 for other in out):
            out.append(box)
    return out
