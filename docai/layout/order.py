"""Reading order by recursive cutting, for lines as well as for the regions of any detector.

A zone is cut into bands (stretches of white across its whole width). Bands in a row that share a gutter, a stretch
of white from top to bottom with something on both sides, make a section of columns; each column is a zone of its
own. This is the XY-cut of Nagy and Seth (1984) with two changes: a gutter may be as short as a section, so that
titles, figures and tables across all columns do not hide it, and it may pass behind an inset that text runs around.

Everything works in *flow* coordinates, in which text runs left to right and lines top to bottom; `Flow` maps pages
of other scripts to them.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum

from docai.layout.rows import Rect, row_order, tabular
from docai.types import Box

Span = tuple[float, float]

_GUTTER = 0.7  # narrowest gutter, in line heights; word spaces are about 0.3, and text sets columns at least 1 em apart
_TALL_GUTTER = 0.3  # of one with at least _TALL boxes on either side: no paragraph leaves such a gap by chance
_TALL = 8
_SHRINK = 0.15  # of a line height that neighbouring lines may overlap: boxes reach from ascent to descent
_CROSSING = 0.12  # share of the boxes of an undivided band that may cross a gutter, as lines run together or spanning
_FEWEST = 3  # boxes on either side of such a gutter
_LINE = 0.025  # of the width of all text: the height of a line on pages of usual proportions
_EVEN = 1.6  # by which the heights of lines differ at most, but for a quarter on either side
_APART = 1.2  # line heights of white that set off what stands below columns
_FAR_APART = 2.5  # the same, where nothing spanning follows


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
    the page is a grid that is read row by row. `separators`: rules; columns end where one crosses their gutter.
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

    `em`: the height of a line, where the caller knows it.
    """
    if not rects:
        return []
    em = em or _line_height(rects)
    cutter = _Cutter([*rects, *separators], len(rects), frozenset(heads), em)
    leaves = cutter.cut(list(range(len(rects) + len(separators))))
    return [leaf for leaf in leaves if leaf]


def _line_height(rects: Sequence[Rect]) -> float:
    """The median height of boxes that are lines; where they are whole paragraphs, what their page's width suggests."""
    heights = sorted(r[3] - r[1] for r in rects)
    middle = heights[len(heights) // 2]
    if heights[len(heights) // 4] * _EVEN < heights[3 * len(heights) // 4]:
        middle = min(middle, _LINE * (max(r[2] for r in rects) - min(r[0] for r in rects)))
    return max(middle, 1e-6)


@dataclass(slots=True)
class _Band:
    """Boxes between two stretches of white that cross the whole zone."""

    top: float
    bottom: float
    members: list[int] = field(default_factory=list)


@dataclass(slots=True)
class _Section:
    """Bands `start` to `end` that share gutters. `insets` are boxes in the way, which the columns run around."""

    start: int
    end: int
    gutters: list[Span]
    insets: list[int] = field(default_factory=list)


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
        leaves: list[list[int]] = [[]]
        bands = self._bands(zone)
        done = 0
        while done < len(bands):
            section = self._section(bands, done)
            for band in bands[done : section.start]:
                leaves += self._undivided(band, leaves[-1])
            if section.end > section.start:
                parts = self._columns(bands[section.start : section.end], section)
                if len(parts) == 1:  # rows after all
                    leaves[-1] += parts[0]
                else:
                    leaves += [*parts, []]
            done = section.end
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

    def _undivided(self, band: _Band, leaf: list[int]) -> list[list[int]]:
        """A band without gutter goes to the end of `leaf`; or is cut into new leaves at boxes that hide a gutter."""
        crossers = self._crossers(band.members)
        if not crossers:
            leaf += row_order(self.rects, self._kept(band.members))
            return []
        rest, parts = [i for i in band.members if i not in crossers], []
        for i in sorted(crossers, key=self._middle):
            parts += [[n for n in rest if self._middle(n) <= self._middle(i)], [i]]
            rest = [n for n in rest if self._middle(n) > self._middle(i)]
        return [*(leaf for part in [*parts, rest] if part for leaf in self.cut(part)), []]

    def _middle(self, i: int) -> float:
        return (self.rects[i][1] + self.rects[i][3]) / 2

    def _crossers(self, members: Sequence[int]) -> frozenset[int]:
        """The few boxes of a band without which it would have a gutter; none if they are many."""
        lefts, rights = sorted(self.rects[i][0] for i in members), sorted(self.rects[i][2] for i in members)
        best, at = int(_CROSSING * len(members)) + 1, None
        for x in rights[_FEWEST - 1 :] if len(members) >= 2 * _FEWEST else ():
            before, after = bisect_right(rights, x), len(lefts) - bisect_left(lefts, x + _TALL_GUTTER * self.em)
            if after >= _FEWEST and 0 < len(members) - before - after < best:
                best, at = len(members) - before - after, x
        if at is None:
            return frozenset()
        reach = at + _TALL_GUTTER * self.em
        return frozenset(i for i in members if self.rects[i][2] > at and self.rects[i][0] < reach)

    def _section(self, bands: Sequence[_Band], start: int) -> _Section:
        """The first section of columns from band `start` on; an empty one at the end if there is none."""
        for seed in range(start, len(bands)):
            gutters = self._gaps(bands[seed].members)
            if not gutters:
                continue
            section = self._grown(bands, _Section(seed, seed + 1, gutters))
            section.gutters = self._proper(bands, section)
            if section.gutters:
                self._trim(bands, section)
                while section.start > start and self._leads(bands[section.start - 1], bands, section):
                    section.start -= 1
                return section
        return _Section(len(bands), len(bands), [])

    def _gaps(self, members: Sequence[int]) -> list[Span]:
        """Stretches of white between boxes of one band."""
        gaps: list[Span] = []
        if len(members) > 1:
            spans = sorted((self.rects[i][0], self.rects[i][2]) for i in members)
            reach = spans[0][1]
            for left, right in spans[1:]:
                if left - reach >= _TALL_GUTTER * self.em:
                    gaps.append((reach, left))
                reach = max(reach, right)
        return gaps

    def _grown(self, bands: Sequence[_Band], section: _Section) -> _Section:
        """The section with the bands below that leave one of its gutters free."""
        while section.end < len(bands):
            free = self._free(section.gutters, bands[section.end].members)
            if free:
                section.gutters, section.end = free, section.end + 1
            elif not self._pass_inset(bands, section):
                break
        return section

    def _free(self, gutters: Sequence[Span], members: Iterable[int]) -> list[Span]:
        """What `members` leave of gutters."""
        free = list(gutters)
        for i in members:
            left, _, right, _ = self.rects[i]
            if any(left < b and right > a for a, b in free):
                free = [part for a, b in free for part in _rest(a, b, left, right)]
        return [(a, b) for a, b in free if b - a >= _TALL_GUTTER * self.em]

    def _pass_inset(self, bands: Sequence[_Band], section: _Section) -> bool:
        """Whether the columns go on around what crosses their gutter next, and reach the gutter again below it."""
        gutter = max(section.gutters, key=lambda span: span[1] - span[0])
        held = [i for band in bands[section.start : section.end] for i in band.members]
        left, right = min(self.rects[i][0] for i in held), max(self.rects[i][2] for i in held)
        insets: list[int] = []
        for n in range(section.end, len(bands)):
            crossing = [i for i in bands[n].members if self.rects[i][0] < gutter[1] and self.rects[i][2] > gutter[0]]
            if not crossing:
                section.insets += insets
                section.end, section.gutters = n, [gutter]
                return True
            around = [self.rects[i] for i in bands[n].members if i not in crossing and i < self.real]
            outer = min((r[0] for r in around), default=right), max((r[2] for r in around), default=left)
            if any(i >= self.real for i in crossing) or outer[0] > left + self.em or outer[1] < right - self.em:
                return False
            insets += crossing
        return False

    def _proper(self, bands: Sequence[_Band], section: _Section) -> list[Span]:
        """The gutters that are wide enough for their height."""
        held = [i for band in bands[section.start : section.end] for i in self._kept(band.members)]

        def tall(gutter: Span) -> bool:
            before = sum(self.rects[i][2] <= gutter[0] for i in held)
            return before >= _TALL and sum(self.rects[i][0] >= gutter[1] for i in held) >= _TALL

        return [g for g in section.gutters if g[1] - g[0] >= _GUTTER * self.em or tall(g)]

    def _trim(self, bands: Sequence[_Band], section: _Section) -> None:
        """Give up bands at the end that hold only something in the first column and stand closer to what follows."""
        if section.end == len(bands):
            return
        below = bands[section.end].top - bands[section.end - 1].bottom
        for n in range(section.end - 1, section.start, -1):
            if any(self.rects[i][0] > section.gutters[0][0] for i in bands[n].members):
                return
            if bands[n].top - bands[n - 1].bottom > max(below, _APART * self.em):
                section.end = n
                return

    def _leads(self, band: _Band, bands: Sequence[_Band], section: _Section) -> bool:
        """Whether a band above a section belongs to its first column."""
        near = bands[section.start].top - band.bottom < _APART * self.em
        return near and all(self.rects[i][2] <= section.gutters[0][0] for i in band.members)

    def _columns(self, bands: Sequence[_Band], section: _Section) -> list[list[int]]:
        """The leaves of a section, column by column; what stands apart below the first column comes last."""
        end = self._end(bands, section.gutters[0][0])
        insets = frozenset(section.insets)
        members = [i for band in bands[:end] for i in band.members if i not in insets]
        parts = self._joined([part for part in self._parted(members, section.gutters) if part])
        below = [i for band in bands[end:] for i in band.members]
        last = [leaf for zone in (section.insets, below) if zone for leaf in self.cut(zone)]
        if len(parts) == 1:
            return [[i for band in bands[:end] for i in row_order(self.rects, self._kept(band.members))], *last]
        grid = self._grid(bands[:end], parts)
        zones = grid if len(grid) > 1 else parts
        return [*(leaf for zone in zones for leaf in self.cut(zone)), *last]

    def _end(self, bands: Sequence[_Band], first: float) -> int:
        """Where columns end: before bands that hold nothing but something in the first column, far below the rest."""
        for n in range(len(bands) - 1, 0, -1):
            if any(self.rects[i][0] > first for i in bands[n].members):
                break
            if bands[n].top - bands[n - 1].bottom > _FAR_APART * self.em:
                return n
        return len(bands)

    def _parted(self, members: Iterable[int], gutters: Sequence[Span]) -> list[list[int]]:
        parts: list[list[int]] = [[] for _ in range(len(gutters) + 1)]
        middles = sorted((a + b) / 2 for a, b in gutters)
        for i in members:
            parts[bisect_left(middles, (self.rects[i][0] + self.rects[i][2]) / 2)].append(i)
        return parts

    def _joined(self, parts: list[list[int]]) -> list[list[int]]:
        """Columns, with those made one that are read row by row."""
        joined = parts[:1]
        for part in parts[1:]:
            if tabular(self.rects, self._kept(joined[-1]), self._kept(part), self.em):
                joined[-1] = joined[-1] + part
            else:
                joined.append(part)
        return joined

    def _grid(self, bands: Sequence[_Band], parts: Sequence[Sequence[int]]) -> list[list[int]]:
        """The rows of a grid of sections; a single one if the columns are no grid.

        Every row of a grid opens with heads that stand level in all columns, the first one too: two headings side by
        side in the midst of columns are chance.
        """
        rows: list[list[int]] = []
        for n, band in enumerate(bands):
            apart = n == 0 or band.top - bands[n - 1].bottom > 0.5 * self.em
            begun = bool(rows) and self.heads.issuperset(rows[-1])  # with heads only so far: this is their second line
            if apart and not begun and self._opens(band, parts):
                rows.append([])
            elif not rows:
                return [[]]
            rows[-1] += band.members
        cells = [sum(i in row for i in part) for row in map(frozenset, rows) for part in parts]
        return rows if min(cells) > 1 else [[]]

    def _opens(self, band: _Band, parts: Sequence[Sequence[int]]) -> bool:
        """Whether a band has heads in all columns, at one level."""
        heads = [[i for i in band.members if i in self.heads and i in part] for part in parts]
        tops = [self.rects[i][1] for column in heads for i in column[:1]]
        return len(tops) == len(parts) and max(tops) - min(tops) < 0.5 * self.em


def _rest(a: float, b: float, left: float, right: float) -> list[Span]:
    """What a box from `left` to `right` leaves of the stretch from `a` to `b`."""
    if left >= b or right <= a:
        return [(a, b)]
    return [(a, left)] * (left > a) + [(right, b)] * (right < b)
