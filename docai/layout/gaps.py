"""Strips between columns of text that stay open over many rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from docai.layout.grid import Piece


@dataclass(frozen=True, slots=True)
class Gap:
    """A vertical strip without text: `support` rows have text on both sides of it."""

    left: float
    right: float
    support: int

    @property
    def width(self) -> float:
        return self.right - self.left


NARROWEST = 0.2  # em: what is narrower parts no columns


def open_gaps(rows: Sequence[Sequence[Piece]], em: float) -> list[Gap]:
    """Strips that no piece crosses once those that span several columns are set aside. Rows run left to right."""
    tolerant = _regions(rows, lambda support, crossed: support >= 2 and crossed <= 0.5 * support)
    spanning = {id(p) for region in tolerant for p in _over(region, rows, em)}
    kept = [[piece for piece in row if id(piece) not in spanning] for row in rows]
    open_regions = _regions(kept, lambda support, crossed: support > 0 and crossed == 0)
    return [Gap(r[0].left, r[-1].right, max(s.support for s in r)) for r in open_regions]


def _over(region: Sequence[_Strip], rows: Sequence[Sequence[Piece]], em: float) -> list[Piece]:
    gap = _clearest(region)
    across = _spanning(gap, rows) if gap.width >= NARROWEST * em else []
    whole = Gap(region[0].left, region[-1].right, gap.support)
    return across + (_filling(whole, rows) if whole.width >= NARROWEST * em else [])


def _filling(gap: Gap, rows: Sequence[Sequence[Piece]]) -> list[Piece]:
    """Headings that fill a gap (nearly) and reach only a little into the columns on its sides."""
    filling = [p for row in rows for p in row if _share(p, gap) > 0.8 * gap.width and p.box.width < 2 * gap.width]
    if not filling:
        return []
    before = [p.box for row in rows for p in row if p.box.r <= gap.left + 0.01]
    behind = [p.box for row in rows for p in row if p.box.l >= gap.right - 0.01]
    if not before or not behind:
        return []
    left, right = max(before, key=lambda box: box.r), min(behind, key=lambda box: box.l)
    return [p for p in filling if p.box.l > left.cx and p.box.r < right.cx]


def _share(piece: Piece, gap: Gap) -> float:
    return min(piece.box.r, gap.right) - max(piece.box.l, gap.left)


def _spanning(gap: Gap, rows: Sequence[Sequence[Piece]]) -> list[Piece]:
    """Pieces that run over a gap, and over text on both sides of it in other rows."""
    across = [p for row in rows for p in row if p.box.l < gap.left and p.box.r > gap.right]
    if not across:
        return []
    middle = (gap.left + gap.right) / 2
    ends = [p.box.r for row in rows for p in row if p.box.r <= middle]
    starts = [p.box.l for row in rows for p in row if p.box.l >= middle]
    left, right = max(ends, default=middle), min(starts, default=middle)
    return [p for p in across if p.box.l < left and right < p.box.r]


@dataclass(frozen=True, slots=True)
class _Strip:
    """Between two neighbouring edges of pieces: rows with text on both sides, and rows with text across."""

    left: float
    right: float
    support: int
    crossed: int


def _clearest(region: Sequence[_Strip]) -> Gap:
    """The part of a region that the fewest rows cross."""
    best = min(region, key=lambda s: (s.crossed, -s.support, s.left - s.right))
    return Gap(best.left, best.right, best.support)


def _regions(rows: Sequence[Sequence[Piece]], keep: Callable[[int, int], bool]) -> list[list[_Strip]]:
    """Neighbouring strips for which `keep(support, crossed)` holds, in groups."""
    changes = _changes(rows)
    edges = sorted(changes)
    found: list[list[_Strip]] = []
    support = crossed = 0
    for x, following in pairwise(edges):
        support, crossed = support + changes[x][0], crossed + changes[x][1]
        if not keep(support, crossed):
            continue
        if not found or found[-1][-1].right != x:
            found.append([])
        found[-1].append(_Strip(x, following, support, crossed))
    return found


def _changes(rows: Sequence[Sequence[Piece]]) -> dict[float, list[int]]:
    """By how much support and crossings change at each edge of a piece."""
    changes: dict[float, list[int]] = {}
    for row in rows:
        reach = float("inf")
        for piece in row:
            left, right = piece.box.l, piece.box.r
            if left > reach:
                changes.setdefault(reach, [0, 0])[0] += 1
                changes.setdefault(left, [0, 0])[0] -= 1
            changes.setdefault(left, [0, 0])[1] += 1
            changes.setdefault(right, [0, 0])[1] -= 1
            reach = right if reach == float("inf") else max(reach, right)
    return changes
