"""Rules, fills, pictures, drawings and links of a PDF page (runs in the decoding process)."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import pypdfium2.raw as raw

from docai.render.frame import Affine, Frame, compose, rect_through

_THIN = 3.0  # points: a filled rectangle no thicker than this is a rule
_SHORTEST = 4.0  # points: shorter ones are parts of drawings
_STRAIGHT = 0.5  # points by which the ends of a straight line may differ
_PAGE_SHARE = 0.85  # of the page area: a fill this large is the page's background
MOST_OBJECTS = 30_000  # of one page; maps and plots have more, and are no tables
_MOST_SEGMENTS = 4_000  # of one path
_DEEPEST = 12  # levels of forms inside forms

Rect = tuple[float, float, float, float]


@dataclass(slots=True)
class Objects:
    """What was found, as (l, t, r, b) on the displayed page; rules with their thickness behind."""

    rules: list[tuple[float, float, float, float, float]] = field(default_factory=list)
    fills: list[Rect] = field(default_factory=list)
    pictures: list[Rect] = field(default_factory=list)
    drawings: list[Rect] = field(default_factory=list)
    cut_short: bool = False


def read_objects(page: Any, frame: Frame) -> Objects:
    """The objects of pypdfium2's raw `page` that are no text."""
    found = Objects()
    budget = [MOST_OBJECTS]
    _walk(_children_of_page(page), frame.affine(), frame, found, budget, 0)
    found.cut_short = budget[0] <= 0
    return found


def _children_of_page(page: Any) -> Iterator[Any]:
    return (raw.FPDFPage_GetObject(page, i) for i in range(raw.FPDFPage_CountObjects(page)))


def _children_of_form(form: Any) -> Iterator[Any]:
    return (raw.FPDFFormObj_GetObject(form, i) for i in range(raw.FPDFFormObj_CountObjects(form)))


def _walk(objects: Iterator[Any], matrix: Affine, frame: Frame, found: Objects, budget: list[int], depth: int) -> None:
    for item in objects:
        budget[0] -= 1
        if budget[0] <= 0:
            return
        kind = raw.FPDFPageObj_GetType(item)
        if kind == raw.FPDF_PAGEOBJ_PATH:
            _path(item, matrix, frame, found)
        elif kind == raw.FPDF_PAGEOBJ_IMAGE:
            _add(found.pictures, _bounds(item, matrix), frame)
        elif kind == raw.FPDF_PAGEOBJ_SHADING:
            _add(found.drawings, _bounds(item, matrix), frame)
        elif kind == raw.FPDF_PAGEOBJ_FORM and depth < _DEEPEST:
            _walk(_children_of_form(item), compose(matrix, _matrix_of(item)), frame, found, budget, depth + 1)


def _matrix_of(item: Any) -> Affine:
    m = raw.FS_MATRIX()
    if not raw.FPDFPageObj_GetMatrix(item, m):
        return (1.0, 0.0, 0.0, 1.0, 0.0, 0.0)
    return m.a, m.b, m.c, m.d, m.e, m.f


def _bounds(item: Any, matrix: Affine) -> Rect | None:
    l, b, r, t = (ctypes.c_float() for _ in range(4))  # noqa: E741
    if not raw.FPDFPageObj_GetBounds(item, l, b, r, t):
        return None
    return rect_through(matrix, l.value, b.value, r.value, t.value)


def _add(to: list[Rect], rect: Rect | None, frame: Frame) -> None:
    """Keep the part of a box that lies on the page."""
    if rect is None:
        return
    width, height = frame.size
    l, t, r, b = max(rect[0], 0), max(rect[1], 0), min(rect[2], width), min(rect[3], height)  # noqa: E741
    if r - l > 1 and b - t > 1:
        to.append((l, t, r, b))


def _path(item: Any, matrix: Affine, frame: Frame, found: Objects) -> None:
    filled, stroked = ctypes.c_int(), ctypes.c_int()
    raw.FPDFPath_GetDrawMode(item, filled, stroked)
    if not filled.value and not stroked.value:
        return
    bounds = _bounds(item, matrix)
    if bounds is None:
        return
    width, height = bounds[2] - bounds[0], bounds[3] - bounds[1]
    if min(width, height) <= _THIN:
        _rule(found, bounds, frame, _stroke_width(item) if stroked.value else min(width, height))
        return
    subpaths = _subpaths(item)
    if subpaths is None:
        _add(found.drawings, bounds, frame)
        return
    _straight_path(item, subpaths, matrix, frame, found, bool(filled.value), bool(stroked.value))


def _straight_path(
    item: Any,
    subpaths: list[list[tuple[float, float]]],
    matrix: Affine,
    frame: Frame,
    found: Objects,
    filled: bool,
    stroked: bool,
) -> None:
    """A path of straight lines: stroked axis-parallel ones are rules, filled rectangles fills or thick rules."""
    thickness = _stroke_width(item)
    for points in subpaths:
        box = _around(points, matrix)
        if box is None:
            continue
        if min(box[2] - box[0], box[3] - box[1]) <= _THIN:
            _rule(found, box, frame, thickness if stroked else min(box[2] - box[0], box[3] - box[1]))
        elif not _axis_parallel(points):
            _add(found.drawings, box, frame)
        else:
            if stroked:
                for edge in pairwise(points):
                    _rule(found, rect_through(matrix, *edge[0], *edge[1]), frame, thickness)
            if filled and _visible_fill(item) and not _covers_page(box, frame):
                _add(found.fills, box, frame)


def _around(points: list[tuple[float, float]], matrix: Affine) -> Rect | None:
    xs, ys = [p[0] for p in points], [p[1] for p in points]
    return rect_through(matrix, min(xs), min(ys), max(xs), max(ys))


def _axis_parallel(points: list[tuple[float, float]]) -> bool:
    return all(abs(x1 - x0) <= _STRAIGHT or abs(y1 - y0) <= _STRAIGHT for (x0, y0), (x1, y1) in pairwise(points))


def _covers_page(rect: Rect, frame: Frame) -> bool:
    width, height = frame.size
    return (rect[2] - rect[0]) * (rect[3] - rect[1]) >= _PAGE_SHARE * width * height


def _rule(found: Objects, rect: Rect | None, frame: Frame, thickness: float) -> None:
    if rect is None:
        return
    width, height = frame.size
    long, on_page = max(rect[2] - rect[0], rect[3] - rect[1]), rect[2] >= 0 and rect[3] >= 0
    if long >= _SHORTEST and on_page and rect[0] <= width and rect[1] <= height:
        found.rules.append((*rect, thickness))


def _stroke_width(item: Any) -> float:
    width = ctypes.c_float()
    return float(width.value) if raw.FPDFPageObj_GetStrokeWidth(item, width) else 0.0


def _visible_fill(item: Any) -> bool:
    """White on white paper is no fill; nor is what is (nearly) transparent."""
    r, g, b, alpha = (ctypes.c_uint() for _ in range(4))
    if not raw.FPDFPageObj_GetFillColor(item, r, g, b, alpha):
        return False
    return alpha.value > 8 and min(r.value, g.value, b.value) < 250


def _subpaths(item: Any) -> list[list[tuple[float, float]]] | None:
    """The points of each closed or open part of a path; None where it has curves or too many parts."""
    count = raw.FPDFPath_CountSegments(item)
    if count > _MOST_SEGMENTS:
        return None
    x, y = ctypes.c_float(), ctypes.c_float()
    parts: list[list[tuple[float, float]]] = []
    for i in range(count):
        segment = raw.FPDFPath_GetPathSegment(item, i)
        kind = raw.FPDFPathSegment_GetType(segment)
        if kind == raw.FPDF_SEGMENT_BEZIERTO:
            return None
        raw.FPDFPathSegment_GetPoint(segment, x, y)
        if kind == raw.FPDF_SEGMENT_MOVETO or not parts:
            parts.append([])
        parts[-1].append((x.value, y.value))
        if raw.FPDFPathSegment_GetClose(segment) and parts[-1][0] != parts[-1][-1]:
            parts[-1].append(parts[-1][0])
    return [p for p in parts if len(p) > 1]


def read_links(document: Any, page: Any, frame: Frame) -> list[tuple[Rect, str]]:
    """Link annotations: where on the displayed page, and the URL or `#page=N` that they lead to."""
    position, link = ctypes.c_int(0), raw.FPDF_LINK()
    links: list[tuple[Rect, str]] = []
    affine = frame.affine()
    while len(links) < 2000 and raw.FPDFLink_Enumerate(page, position, link):
        rect = raw.FS_RECTF()
        target = _target(document, link)
        if target and raw.FPDFLink_GetAnnotRect(link, rect):
            shown = rect_through(affine, rect.left, rect.bottom, rect.right, rect.top)
            if shown:
                links.append((shown, target))
    return links


def _target(document: Any, link: Any) -> str | None:
    action = raw.FPDFLink_GetAction(link)
    if action and raw.FPDFAction_GetType(action) == raw.PDFACTION_URI:
        length = raw.FPDFAction_GetURIPath(document, action, None, 0)
        buffer = ctypes.create_string_buffer(min(length, 4096))
        raw.FPDFAction_GetURIPath(document, action, buffer, len(buffer))
        return buffer.raw.split(b"\0", 1)[0].decode("utf-8", "replace") or None
    destination = raw.FPDFLink_GetDest(document, link) or (action and raw.FPDFAction_GetDest(document, action))
    index = raw.FPDFDest_GetDestPageIndex(document, destination) if destination else -1
    return f"#page={index + 1}" if index >= 0 else None
