"""The vector paths of a PDF page: which are ruling lines, filled areas or drawings (runs in the decoding process).

Paths are read a container (page or form) at a time, their numbers as arrays: plots have thousands of them.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain, repeat

import numpy as np
import pypdfium2.raw as raw
from numpy.typing import NDArray

from docai.render.frame import Affine, Frame, compose_all, cut, mapped
from docai.render.pdfium_calls import Handle, bare, each, table

_THIN = 3.0  # points: a filled rectangle no thicker than this is a rule
_BAND = 6.0  # points: a line thicker than this is an area
_SHORTEST = 4.0  # points: shorter ones are parts of drawings
_STRAIGHT = 0.5  # points by which the ends of a straight line may differ
_PAGE_SHARE = 0.85  # of the page area: a fill this large is the page's background
_MOST_SEGMENTS = 4_000  # of one path; what has more is a drawing
_MOST_SEGMENTS_READ = 30_000  # of the paths of one container
_FIRST_SEGMENTS = 4
_LINE_SEGMENTS = 12  # a thin filled shape of more is a letter or an ornament

_get_draw_mode = bare("FPDFPath_GetDrawMode")
_get_matrix = bare("FPDFPageObj_GetMatrix")
_get_stroke_width = bare("FPDFPageObj_GetStrokeWidth")
_get_fill_color = bare("FPDFPageObj_GetFillColor")
_get_stroke_color = bare("FPDFPageObj_GetStrokeColor")
_count_segments = bare("FPDFPath_CountSegments")
_get_segment = bare("FPDFPath_GetPathSegment", Handle)
_get_segment_type = bare("FPDFPathSegment_GetType")
_get_segment_close = bare("FPDFPathSegment_GetClose")
_get_point = bare("FPDFPathSegment_GetPoint")

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
Indices = NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class Shapes:
    """Boxes (n, 4) of what was found, l t r b as displayed; `rules` have their thickness as a fifth column."""

    rules: Floats
    fills: Floats
    drawings: Floats


@dataclass(frozen=True, slots=True)
class _Paths:
    """Paths that show: one row each."""

    handles: list[Handle]
    boxes: Floats  # (k, 4) as displayed, with the width of strokes
    clips: Floats  # (k, 4) where they can show
    matrices: Floats  # (k, 6) from path space to the displayed page
    filled: Flags
    stroked: Flags
    solid: Flags  # filled with a colour that shows on white paper
    thickness: Floats  # of the stroke, as displayed; 0 without


@dataclass(frozen=True, slots=True)
class _Pieces:
    """The parts of straight-lined paths: subpaths (m) and their edges (e)."""

    path: Indices  # (m,) whose
    boxes: Floats  # (m, 4)
    parallel: Flags  # (m,) all edges lie along the page's
    edge_piece: Indices  # (e,)
    edge_boxes: Floats  # (e, 4)


def read_paths(handles: list[Handle], boxes: Floats, clips: Floats, matrix: Affine, frame: Frame) -> Shapes:
    """What the paths of one container draw. `boxes` and `clips` are as displayed; `matrix` maps the container there."""
    paths = _visible_paths(handles, boxes, clips, matrix)
    if not paths.handles:
        return Shapes(np.zeros((0, 5)), np.zeros((0, 4)), np.zeros((0, 4)))
    counts = each(_count_segments, (paths.handles,), "int64", len(paths.handles))
    thin = _thin(paths.boxes) & (paths.stroked | (counts <= _LINE_SEGMENTS))
    pieces, curved = _read_pieces(paths, np.where(thin, 0, counts))
    line, band = _lines(paths, thin, pieces)
    area = pieces.parallel & ~_thin(pieces.boxes)
    fills = cut(pieces.boxes, paths.clips[pieces.path])[area & paths.solid[pieces.path]]
    whole = _sides(fills).prod(axis=1) >= _PAGE_SHARE * frame.size[0] * frame.size[1]
    outlines = cut(pieces.boxes, paths.clips[pieces.path])[~pieces.parallel & ~_thin(pieces.boxes)]
    drawings = np.concatenate([cut(paths.boxes, paths.clips)[curved], outlines])
    return Shapes(line, np.concatenate([fills[~whole], band]), drawings)


def _sides(boxes: Floats) -> Floats:
    """(width, height) of each box."""
    return boxes[:, 2:] - boxes[:, :2]


def _thin(boxes: Floats) -> Flags:
    thin: Flags = _sides(boxes).min(axis=1, initial=np.inf) <= _THIN
    return thin


def _visible_paths(handles: list[Handle], boxes: Floats, clips: Floats, matrix: Affine) -> _Paths:
    count = len(handles)
    _, modes = table(_get_draw_mode, (handles,), count, ctypes.c_int, pointers=2)
    inside = (_sides(cut(boxes, clips)) >= 0).all(axis=1)
    rows = np.flatnonzero(modes.any(axis=1) & inside)
    handles = [handles[i] for i in rows.tolist()]
    filled, stroked = modes[rows].T != 0
    matrices = compose_all(matrix, matrices_of(handles))
    _, width = table(_get_stroke_width, (handles,), len(handles), ctypes.c_float)
    scale = np.sqrt(np.abs(matrices[:, 0] * matrices[:, 3] - matrices[:, 1] * matrices[:, 2]))
    thickness = np.where(stroked, width[:, 0] * scale, 0.0)
    solid = filled & _colored(_get_fill_color, handles)
    return _Paths(handles, boxes[rows], clips[rows], matrices, filled, stroked, solid, thickness)


def matrices_of(handles: list[Handle]) -> Floats:
    """The objects' own matrices (n, 6); the identity where there is none."""
    known, found = table(_get_matrix, (handles,), len(handles), ctypes.c_float, width=6)
    matrices: Floats = found.astype(np.float64)
    matrices[known == 0] = (1, 0, 0, 1, 0, 0)
    return matrices


def _colored(get_color: Callable[..., int], handles: list[Handle]) -> Flags:
    """White on white paper does not show; nor does what is (nearly) transparent."""
    known, rgba = table(get_color, (handles,), len(handles), ctypes.c_uint, pointers=4)
    colored: Flags = (known != 0) & (rgba[:, 3] > 8) & (rgba[:, :3].min(axis=1) < 250)
    return colored


def _lines(paths: _Paths, thin: Flags, pieces: _Pieces) -> tuple[Floats, Floats]:
    """(rules, bands): the thin paths, the thin pieces and the edges of stroked rectangles."""
    straight = paths.boxes[thin]
    reach = np.where(paths.stroked[thin], _sides(straight).min(axis=1, initial=np.inf) / 2, 0)  # of the stroke, beyond
    along = (_sides(straight).argmax(axis=1) if len(straight) else np.zeros(0, int))[:, None]
    straight = straight + np.where(np.arange(4) % 2 == along, np.repeat([[1, -1]], 2, axis=1), 0) * reach[:, None]
    piece = np.flatnonzero(_thin(pieces.boxes))
    frames = pieces.parallel & ~_thin(pieces.boxes) & paths.stroked[pieces.path]
    edge = np.flatnonzero(frames[pieces.edge_piece])
    owner = np.concatenate([np.flatnonzero(thin), pieces.path[piece], pieces.path[pieces.edge_piece[edge]]])
    boxes = np.concatenate([straight, pieces.boxes[piece], pieces.edge_boxes[edge]])
    return _as_rules(boxes, owner, paths)


def _as_rules(boxes: Floats, owner: Indices, paths: _Paths) -> tuple[Floats, Floats]:
    """Boxes around lines as (rules, bands): as thick as they are drawn, cut to where they show."""
    if not len(boxes):
        return np.zeros((0, 5)), np.zeros((0, 4))
    sides, middle = _sides(boxes), (boxes[:, :2] + boxes[:, 2:]) / 2
    thickness = np.where(paths.stroked[owner], paths.thickness[owner], sides.min(axis=1))
    half = np.where(sides == sides.min(axis=1, keepdims=True), thickness[:, None], sides) / 2
    boxes = cut(np.concatenate([middle - half, middle + half], axis=1), paths.clips[owner])
    shown = (_sides(boxes) >= 0).all(axis=1) & (sides.max(axis=1) >= _SHORTEST)
    band = thickness > _BAND
    return np.column_stack([boxes, thickness])[shown & ~band], boxes[shown & band]


def _read_pieces(paths: _Paths, counts: NDArray[np.int64]) -> tuple[_Pieces, Flags]:
    """The pieces of straight-lined paths of `counts` segments, and which paths are curved or too long to read."""
    curved = _curved_early(paths.handles, counts)
    curved |= (counts > _MOST_SEGMENTS) | (np.cumsum(np.where(curved, 0, counts)) > _MOST_SEGMENTS_READ)
    owner, segments, kinds = _segments(paths.handles, np.where(curved, 0, counts))
    curved[owner[kinds == raw.FPDF_SEGMENT_BEZIERTO]] = True
    straight = ~curved[owner]
    owner, kinds = owner[straight], kinds[straight]
    segments = [segments[i] for i in np.flatnonzero(straight).tolist()]
    _, xy = table(_get_point, (segments,), len(segments), ctypes.c_float, pointers=2)
    points = np.stack(mapped(paths.matrices[owner], *xy.T.astype(np.float64)), axis=1)
    points = np.nan_to_num(points, nan=0.0, posinf=1e9, neginf=-1e9)
    starts = (kinds == raw.FPDF_SEGMENT_MOVETO) | (np.diff(owner, prepend=-1) != 0)
    closes = paths.filled[owner]
    ends = np.append(starts[1:], True)[: len(starts)]  # only there a subpath can close
    asked = np.flatnonzero(ends & ~closes)
    last = [segments[i] for i in asked.tolist()]
    closes[asked] = each(_get_segment_close, (last,), "int32", len(last)) != 0
    return _split(owner, points, closes, starts), curved


def _curved_early(handles: list[Handle], counts: NDArray[np.int64]) -> Flags:
    """Which paths show a curve in their first segments: most that have one, and nothing more is asked of these."""
    curved = np.zeros(len(handles), bool)
    owner, _, kinds = _segments(handles, np.where(counts > _FIRST_SEGMENTS, _FIRST_SEGMENTS, 0))
    curved[owner[kinds == raw.FPDF_SEGMENT_BEZIERTO]] = True
    return curved


def _segments(handles: list[Handle], counts: NDArray[np.int64]) -> tuple[Indices, list[Handle], NDArray[np.int32]]:
    """(path, segment, kind of segment) of every segment."""
    owner = np.repeat(np.arange(len(handles)), counts)
    number = np.arange(len(owner)) - np.repeat(np.cumsum(counts) - counts, counts)
    segments = list(map(_get_segment, chain.from_iterable(map(repeat, handles, counts.tolist())), number.tolist()))
    return owner, segments, each(_get_segment_type, (segments,), "int32", len(segments))


def _split(owner: Indices, points: Floats, closes: Flags, starts: Flags) -> _Pieces:
    """Pieces of points (n, 2) in a row: a new one begins at each of `starts`; `closes` lead back to it."""
    first = np.flatnonzero(starts)
    if not len(first):
        nothing, no_boxes = np.zeros(0, np.intp), np.zeros((0, 4))
        return _Pieces(nothing, no_boxes, np.zeros(0, bool), nothing, no_boxes)
    piece = np.cumsum(starts) - 1
    ahead = np.append(~starts[1:], False)  # the next point belongs to the same piece
    begin = np.flatnonzero(ahead | closes)
    end = np.where(ahead[begin], begin + 1, first[piece[begin]])
    a, b = points[begin], points[end]
    crooked = (np.abs(a - b) > _STRAIGHT).all(axis=1)
    parallel = np.bincount(piece[begin], crooked, len(first)) == 0
    boxes = np.concatenate([np.minimum.reduceat(points, first), np.maximum.reduceat(points, first)], axis=1)
    whole = np.bincount(piece, minlength=len(first)) > 1
    number = np.cumsum(whole) - 1
    kept = whole[piece[begin]]
    return _Pieces(
        owner[first][whole],
        boxes[whole],
        parallel[whole],
        number[piece[begin]][kept],
        np.concatenate([np.minimum(a, b), np.maximum(a, b)], axis=1)[kept],
    )
