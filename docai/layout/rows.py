"""Boxes side by side: rows of a form or table, or columns of running text?"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from statistics import median

# left, top, right, bottom in flow coordinates (see `order.Flow`)
Rect = tuple[float, float, float, float]

_LEVEL = 0.18  # line heights by which the feet or middles of a row may differ
_LEVEL_OF_NARROW = 0.45  # the same beside a narrow column, down which no text is read: photos are not quite level
_ALIGNED = 0.85  # share of rows with a partner from which on two columns are rows of a table or form
_NARROW = 3.5  # line heights; columns of bullets, line numbers or amounts are narrower
_PROSE = 7.0  # line heights, about 14 letters: lines of running text are longer, however narrow the column
_LONG = 9.0  # line heights; such a line is hardly a cell of a form
_LONG_SHARE = 0.35
_FILLED = 0.72  # share of the width around it that a line of running text fills
_AROUND = 3  # lines before and after that tell how wide a column is there; text may run around a picture
_TALLEST_LINE = 1.8  # line heights; a taller box is no line, or one in display type that no row holds


def row_order(rects: Sequence[Rect], members: Iterable[int]) -> list[int]:
    """Boxes that stand level make rows; rows top to bottom, each from left to right."""
    rows: list[list[int]] = []
    reach = float("-inf")
    for i in sorted(members, key=lambda i: rects[i][1] + rects[i][3]):
        _, top, _, bottom = rects[i]
        if rows and (top + bottom) / 2 < reach:
            rows[-1].append(i)
        else:
            rows.append([i])
            reach = bottom - 0.25 * (bottom - top)
    return [i for row in rows for i in sorted(row, key=lambda i: rects[i][0])]


def tabular(rects: Sequence[Rect], a: Sequence[int], b: Sequence[int], em: float) -> bool:
    """Whether two neighbouring columns belong together row by row: keys and values, bullets and their text."""
    if not a or not b or any(rects[i][3] - rects[i][1] > _TALLEST_LINE * em for i in (*a, *b)):
        return False
    narrow = min(_width(rects, a), _width(rects, b)) < _NARROW * em
    fewer, more = (a, b) if len(a) <= len(b) else (b, a)
    level = _level(rects, fewer, more, (_LEVEL_OF_NARROW if narrow else _LEVEL) * em)
    if level < _ALIGNED * len(fewer):
        return False
    return len(fewer) == 1 or narrow or not (_is_text(rects, a, em) and _is_text(rects, b, em))


def _level(rects: Sequence[Rect], some: Sequence[int], others: Sequence[int], reach: float) -> int:
    """How many boxes of `some` have one of `others` at their level, by their feet or by their middles."""
    feet = sorted(rects[i][3] for i in others)
    middles = sorted((rects[i][1] + rects[i][3]) / 2 for i in others)
    count = 0
    for i in some:
        _, top, _, foot = rects[i]
        count += _near(feet, foot, reach) or _near(middles, (top + foot) / 2, reach)
    return count


def _near(values: Sequence[float], value: float, reach: float) -> bool:
    at = bisect_left(values, value - reach)
    return at < len(values) and values[at] <= value + reach


def _width(rects: Sequence[Rect], part: Sequence[int]) -> float:
    return median(rects[i][2] - rects[i][0] for i in part)


def _is_text(rects: Sequence[Rect], part: Sequence[int], em: float) -> bool:
    """Whether a column holds text rather than cells: many lines are long, or fill the column where they stand."""
    if len(part) > 2 and sum(rects[i][2] - rects[i][0] > _LONG * em for i in part) > _LONG_SHARE * len(part):
        return True
    lines = [rects[i] for i in sorted(part, key=lambda i: rects[i][1])]
    filled = 0
    for n, (left, _, right, _) in enumerate(lines):
        around = lines[max(0, n - _AROUND) : n + _AROUND + 1]
        width = max(r[2] for r in around) - min(r[0] for r in around)
        filled += right - left > max(_PROSE * em, _FILLED * width)
    return len(lines) > 1 and filled * 2 > len(lines)
