"""The columns of a table: from vertical rules, and from gaps that stay open over its rows."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from docai.geometry import union
from docai.layout.gaps import NARROWEST, Gap, open_gaps
from docai.layout.grid import CURRENCY, Piece, Track, is_number
from docai.types import Box


@dataclass(frozen=True, slots=True)
class Border:
    """Where two columns, or two rows, meet: at a ruling line or, where there is none, in a gap left..right."""

    at: float
    left: float
    right: float
    track: Track | None = None


def column_borders(rows: Sequence[Sequence[Piece]], upright: Sequence[Track], box: Box, em: float) -> list[Border]:
    """The inner borders between columns, left to right."""
    ruled = [Border(t.at, t.at, t.at, t) for t in upright if _divides(t, rows, box, em)]
    strength = 3 if ruled else 2
    centres = sorted(p.box.cx for row in rows for p in row)
    free = [
        Border((gap.left + gap.right) / 2, gap.left, gap.right)
        for gap in open_gaps(rows, em)
        if _enough(gap, strength, em) and not any(_same_place(gap, b, centres) for b in ruled)
    ]
    return sorted(ruled + free, key=lambda border: border.at)


def _same_place(gap: Gap, border: Border, centres: Sequence[float]) -> bool:
    """Whether a rule runs in a gap, or beside it with (next to) no text between them."""
    if gap.left <= border.at <= gap.right:
        return True
    between = bisect_left(centres, max(border.at, gap.right)) - bisect_right(centres, min(border.at, gap.left))
    return between < 2


def _divides(track: Track, rows: Sequence[Sequence[Piece]], box: Box, em: float) -> bool:
    """Whether a vertical rule has text on both sides and runs along at least a row."""
    if track.length < 0.8 * em:
        return False
    edges = [p.box for row in rows for p in row]
    return min(b.cx for b in edges) < track.at < max(b.cx for b in edges) and box.l < track.at < box.r


def _enough(gap: Gap, strength: int, em: float) -> bool:
    if gap.width < NARROWEST * em:
        return False
    if gap.width < 0.6 * em:
        return gap.support >= max(3, strength)
    return gap.support >= strength or (gap.width >= 1.5 * em and gap.support >= strength - 1)


def merge_signs(row: Sequence[Piece], em: float) -> list[Piece]:
    """A row in which a lone currency sign joins the number behind it, and a lone percent sign the one before it."""
    found: list[Piece] = []
    for piece in row:
        if found and _belongs(found[-1], piece, em):
            before = found[-1]
            found[-1] = replace(before, words=before.words + piece.words, box=union((before.box, piece.box)))
        else:
            found.append(piece)
    return found


def _belongs(before: Piece, piece: Piece, em: float) -> bool:
    if before.text in CURRENCY:
        return is_number(piece.text)
    return piece.text in {"%", ")", ")%", "]"} and is_number(before.text) and piece.box.l - before.box.r < 1.5 * em


def split_at(row: Sequence[Piece], borders: Sequence[Border]) -> list[Piece]:
    """A row whose pieces are cut where a word gap takes in the whole gap of a border, or a ruled border runs."""
    return [part for piece in row for part in _split(piece, borders)]


def _split(piece: Piece, borders: Sequence[Border]) -> list[Piece]:
    inner = [b for b in borders if piece.box.l < b.at < piece.box.r]
    if not inner or len(piece.words) < 2:
        return [piece]
    groups = [[piece.words[0]]]
    for before, word in zip(piece.words, piece.words[1:], strict=False):
        if any(_cuts(b, before.box, word.box) for b in inner):
            groups.append([word])
        else:
            groups[-1].append(word)
    if len(groups) == 1:
        return [piece]
    return [Piece(tuple(group), union(word.box for word in group), piece.line) for group in groups]


def _cuts(border: Border, a: Box, b: Box) -> bool:
    left, right = (a, b) if a.l <= b.l else (b, a)
    if border.track:
        runs = border.track.covers(min(a.t, b.t), max(a.b, b.b)) > 0.5
        return runs and left.cx < border.at < right.cx
    return left.r <= border.left + 0.01 and right.l >= border.right - 0.01


def columns_of(box: Box, borders: Sequence[Border], em: float) -> tuple[int, int]:
    """The first and last column that a box reaches into."""
    edges = [float("-inf"), *(b.at for b in borders), float("inf")]
    shares = [min(box.r, right) - max(box.l, left) for left, right in pairwise(edges)]
    least = min(0.5 * box.width, 0.6 * em)
    reached = [i for i, share in enumerate(shares) if share > 0 and share >= least]
    best = max(range(len(shares)), key=lambda i: shares[i])
    return (min(reached), max(reached)) if reached else (best, best)
