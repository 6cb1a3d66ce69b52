"""Rules, fills, pictures and drawings of a PDF page, and what clips its text (runs in the decoding process)."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain, repeat
from typing import Any

import numpy as np
import pypdfium2.raw as raw
from numpy.typing import NDArray

from docai.render.frame import Affine, Frame, boxes_through, compose_all, cut
from docai.render.pdf_paths import Floats, Indices, matrices_of, read_paths
from docai.render.pdfium_calls import Handle, bare, each, handle_of, table

_DEEPEST = 12  # levels of forms inside forms
_MOST_CLIPS = 16  # of one object
_MOST_CLIP_POINTS = 200
MOST_OBJECTS = 30_000  # of one page; maps and plots have more, and are no tables

_get_type = bare("FPDFPageObj_GetType")
_get_bounds = bare("FPDFPageObj_GetBounds")
_get_clip, _count_clips = bare("FPDFPageObj_GetClipPath", Handle), bare("FPDFClipPath_CountPaths")
_count_clip_points = bare("FPDFClipPath_CountPathSegments")
_get_clip_point = bare("FPDFClipPath_GetPathSegment", Handle)
_get_point = bare("FPDFPathSegment_GetPoint")

Rect = tuple[float, float, float, float]


class Objects:
    """What was found, as boxes l, t, r, b on the displayed page, in parts of (n, 4); rules with their thickness behind.

    `clips`: for text objects (by address) of which only a part can show, that part of the page.
    """

    def __init__(self) -> None:
        self._parts: dict[str, list[Floats]] = {"rules": [], "fills": [], "pictures": [], "drawings": []}
        self.clips: dict[int, Rect] = {}
        self.cut_short = False

    def add(self, name: str, boxes: Floats) -> None:
        if len(boxes):
            self._parts[name].append(boxes)

    def add_areas(self, name: str, boxes: Floats) -> None:
        """Add the boxes that have an area."""
        self.add(name, boxes[(boxes[:, 2] - boxes[:, 0] > 1) & (boxes[:, 3] - boxes[:, 1] > 1)])

    def arrays(self) -> dict[str, NDArray[np.float32]]:
        """All of a kind in one array each: (n, 5) for rules, (n, 4) for the others."""
        empty = np.zeros((0, 4), np.float32)
        return {
            name: np.concatenate(parts, dtype=np.float32) if parts else empty for name, parts in self._parts.items()
        }


@dataclass(frozen=True, slots=True)
class _Container:
    """The page or a form on it: its objects, how its space maps to the displayed page, and where it can show."""

    count: Callable[[Handle], int]
    get: Callable[[Handle, int], Handle]
    handle: Handle
    matrix: Affine
    clip: Rect
    depth: int = 0


_OF_PAGE = bare("FPDFPage_CountObjects"), bare("FPDFPage_GetObject", Handle)
_OF_FORM = bare("FPDFFormObj_CountObjects"), bare("FPDFFormObj_GetObject", Handle)


def read_objects(page: Any, frame: Frame) -> Objects:
    """The objects of pypdfium2's raw `page`."""
    found, budget = Objects(), MOST_OBJECTS
    waiting = [_Container(*_OF_PAGE, handle_of(page), frame.affine(), (0.0, 0.0, *frame.size))]
    while waiting:
        container = waiting.pop()
        count = max(0, min(container.count(container.handle), budget))
        budget -= count
        if count:
            items = list(map(container.get, repeat(container.handle), range(count)))
            waiting += _read(container, items, frame, found)
    found.cut_short = budget <= 0
    return found


def _read(container: _Container, items: list[Handle], frame: Frame, found: Objects) -> list[_Container]:
    """Add what a container's objects are to `found`; returns the forms among them."""
    kinds = each(_get_type, (items,), "int32", len(items))
    bounds = _bounds(items, container.matrix)
    clips = _clips(items, container)
    shown = cut(bounds, clips)
    found.add_areas("pictures", shown[kinds == raw.FPDF_PAGEOBJ_IMAGE])
    found.add_areas("drawings", shown[kinds == raw.FPDF_PAGEOBJ_SHADING])
    clipped = np.flatnonzero((kinds == raw.FPDF_PAGEOBJ_TEXT) & (np.abs(shown - bounds) > 0.5).any(axis=1))
    found.clips |= {items[i].value or 0: tuple(clips[i].tolist()) for i in clipped.tolist()}
    paths = np.flatnonzero(kinds == raw.FPDF_PAGEOBJ_PATH)
    if len(paths):
        shapes = read_paths([items[i] for i in paths.tolist()], bounds[paths], clips[paths], container.matrix, frame)
        found.add("rules", shapes.rules)
        found.add_areas("fills", shapes.fills)
        found.add_areas("drawings", shapes.drawings)
    return _forms(container, items, np.flatnonzero(kinds == raw.FPDF_PAGEOBJ_FORM), clips)


def _forms(container: _Container, items: list[Handle], which: Indices, clips: Floats) -> list[_Container]:
    if container.depth >= _DEEPEST or not len(which):
        return []
    forms = [items[i] for i in which.tolist()]
    matrices = compose_all(container.matrix, matrices_of(forms)).tolist()
    return [
        _Container(*_OF_FORM, form, tuple(matrix), tuple(clip), container.depth + 1)
        for form, matrix, clip in zip(forms, matrices, clips[which].tolist(), strict=True)
    ]


def _bounds(items: list[Handle], matrix: Affine) -> Floats:
    """Boxes around objects as displayed; one that has none stands far off the page."""
    known, rects = table(_get_bounds, (items,), len(items), ctypes.c_float, pointers=4)
    boxes = boxes_through(matrix, rects.astype(np.float64))
    boxes[(known == 0) | ~np.isfinite(boxes).all(axis=1)] = -1e9
    return boxes


def _clips(items: list[Handle], container: _Container) -> Floats:
    """The part of the displayed page in which each object can show."""
    paths = list(map(_get_clip, items))
    counts = each(_count_clips, (paths,), "int32", len(paths))
    clips = np.tile(np.asarray(container.clip, np.float64), (len(items), 1))
    for number in range(min(int(counts.max()), _MOST_CLIPS)):
        which = np.flatnonzero(counts > number)
        owners = [paths[i] for i in which.tolist()]
        points = [point.value for point in map(_get_clip_point, owners, repeat(number), repeat(0))]
        # objects that are drawn under one clip share its points
        sample = dict(zip(points, owners, strict=True))
        place = {point: n for n, point in enumerate(sample)}
        boxes = _clip_boxes(list(sample.values()), number, container)
        clips[which] = cut(clips[which], boxes[[place[point] for point in points]])
    return clips


def _clip_boxes(paths: list[Handle], number: int, container: _Container) -> Floats:
    """The boxes (n, 4) around clips as displayed; that of the container for one with no or too many points."""
    counts = each(_count_clip_points, (paths, repeat(number)), "int64", len(paths))
    counts[counts > _MOST_CLIP_POINTS] = 0
    owners = chain.from_iterable(map(repeat, paths, counts.tolist()))
    points = list(map(_get_clip_point, owners, repeat(number), chain.from_iterable(map(range, counts.tolist()))))
    boxes = np.tile(np.asarray(container.clip, np.float64), (len(paths), 1))
    some = np.flatnonzero(counts > 0)
    if len(some):
        _, xy = table(_get_point, (points,), len(points), ctypes.c_float, pointers=2)
        first = (np.cumsum(counts) - counts)[some]
        around = np.concatenate([np.minimum.reduceat(xy, first), np.maximum.reduceat(xy, first)], axis=1)
        boxes[some] = boxes_through(container.matrix, around.astype(np.float64))
    return boxes
