"""Numbers of lines in the margin, as court records, drafts and poems have them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from docai.types import Line

_FEWEST = 6
_REGULAR = 0.8  # share of the steps from number to number that are equal
_MOST_DIGITS = 4


def line_numbers(lines: Sequence[Line]) -> list[Line]:
    """The lines that number other lines: integers that count up in a column at the outer edge of the text."""
    numbers = [line for line in lines if line.text.isdecimal() and len(line.text) <= _MOST_DIGITS]
    if len(numbers) < _FEWEST:
        return []
    others = [line for line in lines if not line.text.isdecimal()]
    for edge in ("l", "r"):
        column = _column(numbers, edge)
        if len(column) >= _FEWEST and _counts(column) and _at_edge(column, others):
            return column
    return []


def _column(numbers: Sequence[Line], edge: str) -> list[Line]:
    """The largest group of numbers that align on one edge, top to bottom."""
    best: list[Line] = []
    for line in numbers:
        at = getattr(line.box, edge)
        group = [n for n in numbers if abs(getattr(n.box, edge) - at) <= max(line.size, 1.0)]
        best = max(best, group, key=len)
    return sorted(best, key=lambda n: n.box.t)


def _counts(column: Sequence[Line]) -> bool:
    steps = [int(b.text) - int(a.text) for a, b in pairwise(column)]
    usual = max(set(steps), key=steps.count)
    return usual in (1, 2, 5, 10) and steps.count(usual) >= _REGULAR * len(steps)


def _at_edge(column: Sequence[Line], others: Sequence[Line]) -> bool:
    """Whether (nearly) all other text stands on one side."""
    left, right = min(n.box.l for n in column), max(n.box.r for n in column)
    beside = [line for line in others if line.box.b > column[0].box.t and line.box.t < column[-1].box.b]
    after, before = sum(o.box.l >= right for o in beside), sum(o.box.r <= left for o in beside)
    return len(beside) >= len(column) // 3 and max(after, before) >= 0.9 * len(beside)
