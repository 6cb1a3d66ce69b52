"""Boxes, outlines and angles."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from docai.types import Box, Page, Point

if TYPE_CHECKING:
    from shapely.geometry.base import BaseGeometry

Outline = tuple[Point, ...]


def union(boxes: Iterable[Box]) -> Box:
    """The smallest box around all of `boxes`. Raises ValueError where there are none."""
    edges = [box.as_tuple() for box in boxes]
    if not edges:
        raise ValueError("union of no boxes")
    left, top, right, bottom = zip(*edges, strict=True)
    return Box(min(left), min(top), max(right), max(bottom))


def overlap_area(a: Box, b: Box) -> float:
    """Area that two boxes share."""
    width = min(a.r, b.r) - max(a.l, b.l)
    if width <= 0:  # as most boxes of a page are apart
        return 0.0
    return width * max(0.0, min(a.b, b.b) - max(a.t, b.t))


def inside(inner: Box, outer: Box) -> float:
    """Share of `inner`'s area that lies in `outer`, 0..1. A box without area counts by its centre."""
    area = inner.area
    if area <= 0:
        return float(outer.l <= inner.cx <= outer.r and outer.t <= inner.cy <= outer.b)
    return overlap_area(inner, outer) / area


def x_overlap(a: Box, b: Box) -> float:
    """Shared width over the narrower of the two, 0..1."""
    narrower = min(a.width, b.width)
    return max(0.0, min(a.r, b.r) - max(a.l, b.l)) / narrower if narrower > 0 else 0.0


def y_overlap(a: Box, b: Box) -> float:
    """Shared height over the lower of the two, 0..1."""
    lower = min(a.height, b.height)
    return max(0.0, min(a.b, b.b) - max(a.t, b.t)) / lower if lower > 0 else 0.0


def grow(box: Box, dx: float, dy: float | None = None) -> Box:
    """`box` with `dx` more on the left and right and `dy` (default `dx`) more above and below."""
    dy = dx if dy is None else dy
    return Box(box.l - dx, box.t - dy, box.r + dx, box.b + dy)


def clip(box: Box, to: Box) -> Box:
    """`box` cut to `to`; a box outside of it collapses onto its edge."""
    return Box(
        min(max(box.l, to.l), to.r),
        min(max(box.t, to.t), to.b),
        min(max(box.r, to.l), to.r),
        min(max(box.b, to.t), to.b),
    )


def turn_box(box: Box, rotation: int, size: tuple[float, float]) -> Box:
    """A box on a page of `size` (width, height), after the page is turned clockwise by `rotation` (0/90/180/270)."""
    width, height = size
    match rotation % 360:
        case 90:
            return Box(height - box.b, box.l, height - box.t, box.r)
        case 180:
            return Box(width - box.r, height - box.b, width - box.l, height - box.t)
        case 270:
            return Box(box.t, width - box.r, box.b, width - box.l)
    return box


def displayed_quad(page: Page, box: Box) -> tuple[Point, Point, Point, Point]:
    """The corners of an upright box on the page as displayed: top-left, top-right, bottom-right, bottom-left."""
    corners = ((box.l, box.t), (box.r, box.t), (box.r, box.b), (box.l, box.b))
    a, b, c, d = (page.to_displayed(x, y) for x, y in corners)
    return a, b, c, d


def rotate_point(x: float, y: float, degrees: float, centre: Point) -> Point:
    """(x, y) turned clockwise (y runs down) by `degrees` around `centre`."""
    angle = math.radians(degrees)
    dx, dy = x - centre[0], y - centre[1]
    return (
        centre[0] + dx * math.cos(angle) - dy * math.sin(angle),
        centre[1] + dx * math.sin(angle) + dy * math.cos(angle),
    )


def outlines(points: Sequence[Point], within: Box) -> list[Outline]:
    """The area that `points` run around, cut to `within`, as outlines that cross neither themselves nor each other.

    Largest first; none where there is no area. Holes, which a line that crosses itself can make, are filled.
    """
    from shapely import make_valid
    from shapely.geometry import Polygon, box

    if len(set(points)) < 3:
        return []
    whole = make_valid(Polygon(points)).intersection(box(*within.as_tuple()))
    areas = [part for part in _parts(whole) if part.geom_type == "Polygon" and part.area > 0]
    areas.sort(key=lambda part: -part.area)
    return [tuple((float(x), float(y)) for x, y in part.exterior.coords[:-1]) for part in areas]


def _parts(shape: BaseGeometry) -> list[BaseGeometry]:
    """The simple shapes that one consists of."""
    return [inner for part in shape.geoms for inner in _parts(part)] if hasattr(shape, "geoms") else [shape]


def wkt(rings: Sequence[Outline]) -> str:
    """Outlines as well-known text: POLYGON, MULTIPOLYGON, or POINT for a ring of one."""
    from shapely.geometry import MultiPolygon, Point, Polygon

    points = [Point(ring[0]) for ring in rings if len(ring) == 1]
    areas = [Polygon(ring) for ring in rings if len(ring) > 2]
    shape = points[0] if points else areas[0] if len(areas) == 1 else MultiPolygon(areas)
    return str(shape.wkt)


def corners(box: Box) -> Outline:
    """The outline of a box, clockwise from its top-left."""
    return (box.l, box.t), (box.r, box.t), (box.r, box.b), (box.l, box.b)


def iou(a: Box, b: Box) -> float:
    """What two boxes share, over what they cover together, 0..1."""
    shared = overlap_area(a, b)
    return shared / (a.area + b.area - shared) if shared > 0 else 0.0
