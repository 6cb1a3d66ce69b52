"""Which glyphs of a frame stand on one line, and in which order: by geometry, not by the order of the file.

Glyphs that follow each other in the file and on the page make runs; runs on one baseline and near each other make
lines, raised and lowered small print included. Lengths in em are shares of the font size.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from docai.ocr.arrays import changes
from docai.ocr.code_sets import CodeSet
from docai.ocr.glyph_frame import Frame
from docai.ocr.glyph_repair import neighbours

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_LEVEL = 0.12  # em by which the baselines of neighbouring glyphs may differ
_NEAR = 1.2  # em: a run goes on over a gap up to this
_REACH = 4.0  # em: a line goes on over a gap up to this; most are cut at narrower ones later
_PIECE = 0.15  # em: gaps over this part the pieces that are put in order
_SHIFTED = 0.3  # em by which a letter of full size may be shifted if it touches its neighbour (the E of TeX)
_HOLE = 0.3  # em: a gap in a run that what another run draws may fill
_SCRIPT = 0.88  # a superscript or subscript is smaller than this share of its base

# Combining marks of the common scripts, which stand over or under the letter before them.
_is_mark = CodeSet(
    *(range(0x300, 0x370), range(0x483, 0x48A), range(0x591, 0x5C8), range(0x610, 0x61B), range(0x64B, 0x660), 0x670),
    *(range(0x6D6, 0x6EE), range(0x900, 0x904), range(0x93A, 0x950), 0xE31, range(0xE34, 0xE3B), range(0xE47, 0xE4F)),
    range(0x20D0, 0x2100),
)


def line_order(frame: Frame) -> tuple[NDArray[Any], Ints]:
    """(rows, line): the frame's rows in the order line by line, left to right, and the line number of each."""
    run = _runs(frame)
    run = _without_shadows(frame, run)
    rows = np.flatnonzero(run >= 0)
    if not len(rows):
        return rows, np.zeros(0, np.int64)
    run = run[rows]
    left, right, direction = frame.boxes[rows, 0], frame.boxes[rows, 2], _direction(frame, rows, run)
    piece = _pieces(run, left, right, frame.sizes[rows])
    starts = np.flatnonzero(changes(piece))
    pieces = Pieces(
        np.minimum.reduceat(left, starts),
        np.maximum.reduceat(right, starts),
        frame.base[rows][starts],
        np.maximum.reduceat(frame.sizes[rows], starts),
        run[starts],
    )
    line = _linked(pieces, int(run.max()) + 1)[run]
    within = np.where(direction[run] < 0, -rows, rows)
    order = np.lexsort((within, piece, pieces.left[piece], line))
    return rows[order], line[order]


def _runs(frame: Frame) -> Ints:
    """The run of each glyph: a new one begins where the next glyph is not beside the one before it."""
    if len(frame) < 2:
        return np.zeros(len(frame), np.int64)
    left, right = frame.boxes[:, 0], frame.boxes[:, 2]
    size = np.maximum(frame.sizes[1:], frame.sizes[:-1])
    level = np.abs(np.diff(frame.base)) <= _LEVEL * size
    centre, near = (left + right) / 2, _NEAR * size
    over = 0.75 * (right[:-1] - left[:-1]) + 0.02 * size  # further back, a glyph is printed over the one before
    on = level & (centre[1:] >= centre[:-1]) & (left[1:] - right[:-1] <= near) & (left[1:] >= right[:-1] - over)
    back = level & (centre[1:] < centre[:-1]) & (left[:-1] - right[1:] <= near) & (right[1:] <= left[:-1] + over)
    mark = level & _is_mark(frame.codes[1:]) & (np.abs(np.diff(centre)) < size)
    step = np.where(on, 1, np.where(back, -1, 0))
    step[mark] = 2
    turned = np.concatenate(([False], (step[1:] * step[:-1] < 0) & (np.abs(step[1:]) == 1)))
    run: Ints = np.concatenate(([0], np.cumsum((step == 0) | turned)))
    return run


def _without_shadows(frame: Frame, run: Ints) -> Ints:
    """Runs with -1 for those that repeat another one just beside it (shadows, outlines drawn over fills)."""
    starts = np.flatnonzero(changes(run))
    ends = np.append(starts[1:], len(run))
    left, base, size = frame.boxes[starts, 0], frame.base[starts], frame.sizes[starts]
    for a, b in neighbours((ends - starts) * (ends - starts > 1), base, left, 8.0):
        near = (np.abs(left[a] - left[b]) < 0.35 * size[a]) & (np.abs(base[a] - base[b]) < 0.25 * size[a])
        near &= (np.abs(size[a] - size[b]) < 0.2 * size[a]) & (ends[a] - starts[a] > 1)
        for i, j in zip(a[near].tolist(), b[near].tolist(), strict=True):
            if (frame.codes[starts[i] : ends[i]] == frame.codes[starts[j] : ends[j]]).all():
                last = max(i, j)
                run[starts[last] : ends[last]] = -1
    return run


def _direction(frame: Frame, rows: NDArray[Any], run: Ints) -> Ints:
    """By run: -1 where its glyphs come right to left, else 1."""
    starts = np.flatnonzero(changes(run))
    ends = np.append(starts[1:], len(run)) - 1
    direction = np.ones(int(run.max()) + 1, np.int64)
    back = frame.boxes[rows[ends], 2] < frame.boxes[rows[starts], 2]
    direction[run[starts]] = np.where(back & (frame.boxes[rows[ends], 0] < frame.boxes[rows[starts], 0]), -1, 1)
    return direction


def _pieces(run: Ints, left: Floats, right: Floats, size: Floats) -> Ints:
    """Runs parted at every gap, so that what another run puts into a gap can go there."""
    if len(run) < 2:
        return np.zeros(len(run), np.int64)
    gap = np.maximum(left[1:] - right[:-1], left[:-1] - right[1:])
    part = (np.diff(run) != 0) | (gap > _PIECE * size[1:])
    return np.concatenate(([0], np.cumsum(part)))


@dataclass(slots=True)
class Pieces:
    """Columns: extent along the line, baseline, font size and run of each piece."""

    left: Floats
    right: Floats
    base: Floats
    size: Floats
    run: Ints

    def open_ends(self) -> Ints:
        """The pieces that can have a neighbour from another run: at a run's ends and beside its holes."""
        hole = np.ones(len(self.run) + 1, np.bool_)
        gap = np.maximum(self.left[1:] - self.right[:-1], self.left[:-1] - self.right[1:])
        hole[1:-1] = (np.diff(self.run) != 0) | (gap > _HOLE * self.size[1:])
        return np.flatnonzero(hole[1:] | hole[:-1])


def _linked(pieces: Pieces, runs: int) -> Ints:
    """The line of each run."""
    a, b = _candidates(pieces)
    big, small = pieces.size[a], pieces.size[b]
    drop = (pieces.base[b] - pieces.base[a]) / big  # the smaller one's baseline, below the larger one's
    gap = (np.maximum(pieces.left[a], pieces.left[b]) - np.minimum(pieces.right[a], pieces.right[b])) / big
    level = (np.abs(drop) * big <= 0.2 * small) & (small > 0.55 * big) & (gap > -0.3) & (gap <= _REACH)
    level |= (np.abs(drop) < _SHIFTED) & (small > 0.7 * big) & (gap > -0.25) & (gap < 0.1)
    raised = (drop < 0) & (drop > -0.75)
    lowered = (drop > 0) & (drop < 0.35)
    script = (raised | lowered) & (small < _SCRIPT * big) & (small > 0.3 * big) & (gap > -0.35) & (gap < 0.35)
    script &= ~level
    links = np.stack((pieces.run[a], pieces.run[b]), axis=1)
    scripts = _nearest_base(links[script], (np.abs(gap) + np.abs(drop))[script])
    return _joined(runs, np.concatenate((links[level], scripts)))


def _nearest_base(links: Ints, cost: Floats) -> Ints:
    """Of several bases that a raised or lowered run could belong to, the nearest."""
    if not len(links):
        return links
    order = np.lexsort((cost, links[:, 1]))
    nearest: Ints = links[order[changes(links[order, 1])]]
    return nearest


def _candidates(pieces: Pieces) -> tuple[Ints, Ints]:
    """Pairs (larger, smaller) of pieces of different runs whose baselines are close enough to share a line."""
    ends = pieces.open_ends()
    order = ends[np.argsort(pieces.base[ends], kind="stable")]
    base, reach = pieces.base[order], 0.75 * pieces.size[order]
    first, last = np.searchsorted(base, base - reach), np.searchsorted(base, base + reach, side="right")
    count = last - first
    a = np.repeat(np.arange(len(order)), count)
    b = np.arange(len(a)) - np.repeat(np.cumsum(count) - count - first, count)
    a, b = order[a], order[b]
    size, left, right = pieces.size, pieces.left, pieces.right
    keep = (pieces.run[a] != pieces.run[b]) & ((size[a] > size[b]) | ((size[a] == size[b]) & (a < b)))
    keep &= (left[b] - right[a] <= _REACH * size[a]) & (left[a] - right[b] <= _REACH * size[a])
    return a[keep], b[keep]


def _joined(count: int, links: NDArray[Any]) -> Ints:
    """Connected components: a number for each of `count` runs."""
    parent = list(range(count))

    def root(i: int) -> int:
        while parent[i] != i:
            parent[i] = parent[parent[i]]
            i = parent[i]
        return i

    for pair in np.unique(links[:, 0] * count + links[:, 1]).tolist():
        parent[root(pair // count)] = root(pair % count)
    return np.array([root(i) for i in range(count)], np.int64)
