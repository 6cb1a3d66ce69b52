"""Reading order by recursive cutting, for lines as well as for the regions of any detector.

A zone is cut into bands (stretches of white across its whole width). Bands in a row that share a gutter, a stretch
of white from top to bottom with something on both sides, make a section of columns; each column is a zone of its
own. This is the XY-cut of Nagy and Seth (1984) with one change: a gutter may be as short as a section, so that
titles, figures and tables across all columns do not hide it.

Everything works in *flow* coordinates, in which text runs left to right and lines top to bottom; `Flow` maps pages
of other scripts to them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from statistics import median

from docai.types import Box

# left, top, right, bottom in flow coordinates
Rect = tuple[float, float, float, float]
Span = tuple[float, float]

_GUTTER = 0.7  # narrowest gutter, in line heights; word spaces are about 0.3, and text sets columns at least 1 em apart
_SHRINK = 0.15  # share of the height that neighbouring lines may overlap: boxes reach from ascent to descent
_ALIGNED = 0.85  # share of rows with a partner from which on two columns are rows of a table or form
_FILLED = 0.72  # share of its column that a line of running text fills, in the median
_NARROW = 3.5  # line heights; columns of bullets, line numbers or amounts are narrower
_TALLEST_LINE = 3.0  # times the median height; a taller box is no line


class Flow(Enum):
    """How the text of a page runs."""

    LEFT_TO_RIGHT = "ltr"
    RIGHT_TO_LEFT = "rtl"
    VERTICAL = "vertical"  # top to bottom, lines from right to left

    def rect(self, box: Box) -> Rect:
        """A page box in flow coordinates."""
        match self:
            case Flow.LEFT_TO_RIGHT:
                return (box.l, box.t, box.r, box.b)
            case Flow.RIGHT_TO_LEFT:
                return (-box.r, box.t, -box.l, box.b)
            case Flow.VERTICAL:
                return (box.t, -box.r, box.b, -box.l)

    def box(self, rect: Rect) -> Box:
        """The page box of a rectangle in flow coordinates."""
        left, top, right, bottom = rect
        match self:
            case Flow.LEFT_TO_RIGHT:
                return Box(left, top, right, bottom)
            case Flow.RIGHT_TO_LEFT:
                return Box(-right, top, -left, bottom)
            case Flow.VERTICAL:
                return Box(-bottom, left, -top, right)


def reading_order(
    boxes: Sequence[Box],
    flow: Flow = Flow.LEFT_TO_RIGHT,
    *,
    heads: Collection[int] = (),
    separators: Iterable[Box] = (),
) -> list[int]:
    """The indices of `boxes` in reading order.

    `heads`: those that open something new (headings, framed boxes); where they stand level at the top of all columns,
    the page is a grid that is read row by row. `separators`: rules; what stands on both sides of one is not read
    across it.
    """
    leaves = columns([flow.rect(box) for box in boxes], heads=heads, separators=[flow.rect(s) for s in separators])
    return [index for leaf in leaves for index in leaf]


def columns(
    rects: Sequence[Rect],
    *,
    heads: Collection[int] = (),
    separators: Sequence[Rect] = (),
    em: float | None = None,
) -> list[list[int]]:
    """Indices of `rects` as runs that stand one below the other in one column; runs and indices in reading order.

    `em`: the height of a line, where the caller knows better than the median of the heights.
    """
    if not rects:
        return []
    heights = sorted(r[3] - r[1] for r in rects)
    em = em or max(heights[len(heights) // 2], 1e-6)
    cutter = _Cutter([*rects, *separators], len(rects), frozenset(heads), em)
    return [leaf for leaf in cutter.cut(list(range(len(rects) + len(separators)))) if leaf]


@dataclass(slots=True)
class _Band:
    """Boxes between two stretches of white that cross the whole zone."""

    top: float
    bottom: float
    members: list[int] = field(default_factory=list)


@dataclass(slots=True)
class _Cutter:
    rects: Sequence[Rect]
    real: int  # rects from here on are separators: they block gutters, and are not in the result
    heads: frozenset[int]
    em: float

    def cut(self, zone: list[int]) -> list[list[int]]:
        """Leaves of a zone, in reading order."""
        if len(zone) < 2:
            return [self._kept(zone)]
        leaves: list[list[int]] = []
        bands = self._bands(zone)
        start, open_stack = 0, False
        while start < len(bands):
            end, gutters = self._section(bands, start)
            if gutters:
                leaves += self._columns(bands[start:end], gutters)
                open_stack = False
            else:
                if not open_stack:
                    leaves.append([])
                for band in bands[start:end]:
                    leaves[-1] += self._row_order(band.members)
                open_stack = True
            start = end
        return leaves

    def _kept(self, zone: Iterable[int]) -> list[int]:
        return [i for i in zone if i < self.real]

    def _bands(self, zone: Iterable[int]) -> list[_Band]:
        bands: list[_Band] = []
        shrink = _SHRINK * self.em
        for i in sorted(zone, key=lambda i: self.rects[i][1]):
            _, top, _, bottom = self.rects[i]
            slack = min(shrink, 0.25 * (bottom - top))
            if bands and top + slack < bands[-1].bottom:
                bands[-1].members.append(i)
                bands[-1].bottom = max(bands[-1].bottom, bottom - slack)
            else:
                bands.append(_Band(top, bottom - slack, [i]))
        return bands

    def _section(self, bands: Sequence[_Band], start: int) -> tuple[int, list[Span]]:
        """(end, gutters): the most bands from `start` on that share a gutter; no gutters if they are one column."""
        left = min(self.rects[i][0] for b in bands[start:] for i in b.members)
        right = max(self.rects[i][2] for b in bands[start:] for i in b.members)
        free: list[Span] = [(left, right)]
        end, best = start, start
        gutters: list[Span] = []
        sides = _Sides()
        while end < len(bands):
            free = self._free(free, bands[end].members)
            if not free:
                break
            sides.add([self.rects[i] for i in bands[end].members])
            end += 1
            two_sided = [span for span in free if sides.on_both(span)]
            if two_sided:
                best, gutters = end, two_sided
        if not gutters:
            return max(end, start + 1), []
        best = self._trimmed(bands, start, best, gutters, last=best == len(bands))
        return best, gutters

    def _free(self, free: Sequence[Span], members: Iterable[int]) -> list[Span]:
        """What is left of free stretches, where it is wide enough for a gutter."""
        for i in members:
            left, _, right, _ = self.rects[i]
            if any(left < b and right > a for a, b in free):
                free = [part for a, b in free for part in ((a, min(b, left)), (max(a, right), b)) if part[1] > part[0]]
        return [(a, b) for a, b in free if b - a >= _GUTTER * self.em]

    def _trimmed(self, bands: Sequence[_Band], start: int, end: int, gutters: Sequence[Span], *, last: bool) -> int:
        """`end` without bands that stand apart below the columns: they open what comes next.

        Text goes on in the first column after a heading's gap, so a gap counts only if it is wider than the one to
        the spanning part that follows, or very wide where nothing follows.
        """
        first = gutters[0][0]
        for n in range(end - 1, start, -1):
            if any(self.rects[i][0] > first for i in bands[n].members):
                break
            gap = bands[n].top - bands[n - 1].bottom
            below = bands[end].top - bands[end - 1].bottom if not last else 2.5 * self.em
            if gap > max(below, 1.2 * self.em):
                return n
        return end

    def _columns(self, bands: Sequence[_Band], gutters: Sequence[Span]) -> list[list[int]]:
        members = [i for band in bands for i in band.members]
        parts = self._merged([p for p in self._parted(members, gutters) if p])
        if len(parts) == 1:
            return [[i for band in bands for i in self._row_order(band.members)]]
        for row_of_grid in self._grid(bands, parts):
            if len(row_of_grid) == len(members):
                return [leaf for part in parts for leaf in self.cut(part)]
            break
        return [leaf for zone in self._grid(bands, parts) for leaf in self.cut(zone)]

    def _parted(self, members: Iterable[int], gutters: Sequence[Span]) -> list[list[int]]:
        parts: list[list[int]] = [[] for _ in range(len(gutters) + 1)]
        for i in members:
            centre = (self.rects[i][0] + self.rects[i][2]) / 2
            parts[sum(centre > (a + b) / 2 for a, b in gutters)].append(i)
        return parts

    def _grid(self, bands: Sequence[_Band], parts: Sequence[Sequence[int]]) -> list[list[int]]:
        """The rows of a grid of sections; a single one if the columns are no grid."""
        rows: list[list[int]] = [[]]
        for n, band in enumerate(bands):
            heads = [i for i in band.members if i in self.heads]
            apart = n and band.top - bands[n - 1].bottom > 0.5 * self.em
            opened = sum(any(i in heads for i in part) for part in parts)
            tops = [self.rects[i][1] for i in heads]
            if apart and opened == len(parts) and max(tops) - min(tops) < 0.5 * self.em:
                rows.append([])
            rows[-1] += band.members
        return rows

    def _merged(self, parts: list[list[int]]) -> list[list[int]]:
        """Columns, with those made one that belong together row by row: keys and values, bullets and their text."""
        merged = parts[:1]
        for part in parts[1:]:
            if self._tabular(merged[-1], part):
                merged[-1] = merged[-1] + part
            else:
                merged.append(part)
        return merged

    def _tabular(self, a: Sequence[int], b: Sequence[int]) -> bool:
        """Whether two neighbouring columns are read row by row."""
        a, b = self._kept(a), self._kept(b)
        if not a or not b or any(self._tall(i) for i in (*a, *b)):
            return False
        fewer, more = (a, b) if len(a) <= len(b) else (b, a)
        middles = sorted((self.rects[i][1] + self.rects[i][3]) / 2 for i in more)
        level = sum(any(self.rects[i][1] < m < self.rects[i][3] and self._level(i, m) for m in middles) for i in fewer)
        if level < _ALIGNED * len(fewer):
            return False
        return len(fewer) == 1 or min(self._width(a), self._width(b)) < _NARROW * self.em or not self._running(a, b)

    def _tall(self, i: int) -> bool:
        return self.rects[i][3] - self.rects[i][1] > _TALLEST_LINE * self.em

    def _level(self, i: int, middle: float) -> bool:
        _, top, _, bottom = self.rects[i]
        return abs((top + bottom) / 2 - middle) < 0.3 * self.em

    def _width(self, part: Sequence[int]) -> float:
        return median(self.rects[i][2] - self.rects[i][0] for i in part)

    def _running(self, *parts: Sequence[int]) -> bool:
        """Whether all columns hold running text: most lines fill their column."""
        for part in parts:
            width = max(self.rects[i][2] for i in part) - min(self.rects[i][0] for i in part)
            if len(part) < 2 or self._width(part) < _FILLED * width:
                return False
        return True

    def _row_order(self, members: Iterable[int]) -> list[int]:
        """Boxes of one band: rows of boxes that stand level, each from left to right."""
        rows: list[list[int]] = []
        reach = float("-inf")
        for i in sorted(self._kept(members), key=lambda i: self.rects[i][1] + self.rects[i][3]):
            middle = (self.rects[i][1] + self.rects[i][3]) / 2
            if rows and middle < reach:
                rows[-1].append(i)
            else:
                rows.append([i])
                reach = self.rects[i][3] - 0.25 * (self.rects[i][3] - self.rects[i][1])
        return [i for row in rows for i in sorted(row, key=lambda i: self.rects[i][0])]


@dataclass(slots=True)
class _Sides:
    """The outermost edges of boxes seen, to tell whether something stands on both sides of a gutter."""

    right_edges: list[float] = field(default_factory=list)
    left_edges: list[float] = field(default_factory=list)

    def add(self, rects: Iterable[Rect]) -> None:
        for left, _, right, _ in rects:
            self.left_edges.append(left)
            self.right_edges.append(right)

    def on_both(self, span: Span) -> bool:
        return min(self.right_edges) <= span[0] + 1e-6 and max(self.left_edges) >= span[1] - 1e-6
