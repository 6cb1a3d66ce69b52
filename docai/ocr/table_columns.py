"""The columns of a table: from vertical rules, and from gaps that stay open over its rows."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from docai.geometry import union
from docai.layout.gaps import NARROWEST, Gap, open_gaps
from docai.layout.grid import CURRENCY, Piece, Track, is_number
from docai.types import Box

_SUPPORT = 0.4  # share of the rows that a gap in a ruled table is open in: cells of justified text have gaps too
_MARK = re.compile(r"^(?:[*†‡§¶#]{1,3}|[(\[][\da-z*†‡]{1,2}[)\]]|[a-z])$")
_BULLETS = frozenset("•◦▪▫●○■□‣⁃∙·")


@dataclass(frozen=True, slots=True)
class Border:
    """Where two columns, or two rows, meet: at a ruling line or, where there is none, in a gap left..right."""

    at: float
    left: float
    right: float
    track: Track | None = None


def column_borders(rows: Sequence[Sequence[Piece]], upright: Sequence[Track], box: Box, em: float) -> list[Border]:
    """The inner borders between columns, left to right."""
    ruled = _ruled([t for t in upright if _divides(t, rows, box, em)], rows, em)
    centres = sorted(p.box.cx for row in rows for p in row)
    gaps = [gap for gap in open_gaps(rows, em) if not any(_same_place(gap, b, centres) for b in ruled)]
    boxed = len(ruled) > sum(_enough(gap, 3, em) for gap in gaps)
    strength = max(3, round(_SUPPORT * len(rows))) if boxed else 2
    free = [Border((g.left + g.right) / 2, g.left, g.right) for g in gaps if _enough(g, strength, em)]
    return _settled(sorted(ruled + free, key=lambda border: border.at), rows)


def _ruled(tracks: Sequence[Track], rows: Sequence[Sequence[Piece]], em: float) -> list[Border]:
    """Borders at vertical rules. Double rules, and such as run along different rows, are one if no text parts them."""
    found: list[Border] = []
    for track in tracks:
        last = found[-1].track if found else None
        if last is not None and not any(last.at < p.box.cx < track.at for row in rows for p in row):
            shared = sum(last.covers(a, b) * (b - a) for a, b in track.runs)
            if track.at - last.at < 1.5 * em or shared < 0.2 * min(last.length, track.length):
                track = Track(max(last, track, key=lambda t: t.length).at, sorted(last.runs + track.runs))
                found.pop()
        found.append(Border(track.at, track.at, track.at, track))
    return found


def _settled(borders: list[Border], rows: Sequence[Sequence[Piece]]) -> list[Border]:
    """Borders of which each has, in one row at least, text in both columns that it parts.

    A column that never has text beside text is a heading in the middle of a gap: the two borders around it are one.
    """
    borders = [b for i, b in enumerate(borders) if b.track or not _only_marks(i, borders, rows)]
    while True:
        held = [{c for p in row if (c := _only_column(p.box, borders)) is not None} for row in rows]
        beside = [any(i in columns and i + 1 in columns for columns in held) for i in range(len(borders))]
        weak = [i for i, border in enumerate(borders) if not border.track and not beside[i]]
        if not weak:
            return borders
        i = weak[0]
        if i + 1 in weak:
            left, right = borders[i].left, borders[i + 1].right
            borders = [*borders[:i], Border((left + right) / 2, left, right), *borders[i + 2 :]]
        else:
            borders = [*borders[:i], *borders[i + 1 :]]


def _only_marks(index: int, borders: Sequence[Border], rows: Sequence[Sequence[Piece]]) -> bool:
    """Whether the column behind a border holds nothing but a few footnote marks of the column before it."""
    right = borders[index + 1].at if index + 1 < len(borders) else float("inf")
    column = [p for row in rows for p in row if borders[index].at < p.box.l and p.box.r < right]
    return 0 < len(column) < 0.5 * len(rows) and all(_MARK.match(p.text) for p in column)


def _only_column(box: Box, borders: Sequence[Border]) -> int | None:
    """The column that holds a box, or None where it reaches over a border."""
    if any(box.l < border.at < box.r for border in borders):
        return None
    return sum(border.at < box.cx for border in borders)


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
    """A row in which signs join what they belong to: currency signs, bullets, per cent, closing brackets."""
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
    apart = piece.box.l - before.box.r
    if before.text in _BULLETS:
        return apart < 3 * em
    return piece.text in {"%", ")", ")%", "]"} and is_number(before.text) and apart < 1.5 * em


def split_at(row: Sequence[Piece], borders: Sequence[Border], extents: Sequence[tuple[float, float]]) -> list[Piece]:
    """A row whose pieces are cut where they hold the text of several columns.

    That is where a ruled border runs, where a space takes in the whole gap of a border, and where each part then
    stands in its column as the other text of that column does.
    """
    return [part for piece in row for part in _split(piece, borders, extents)]


def _split(piece: Piece, borders: Sequence[Border], extents: Sequence[tuple[float, float]]) -> list[Piece]:
    inner = [b for b in borders if piece.box.l < b.at < piece.box.r]
    if not inner or len(piece.words) < 2:
        return [piece]
    aligned = _grouped(piece, [b for b in inner if not b.track], _meets)
    if len(aligned) == len(inner) + 1 and all(_at_home(part.box, borders, extents) for part in aligned):
        return aligned
    return _grouped(piece, inner, _cuts)


def _grouped(piece: Piece, borders: Sequence[Border], cuts: Callable[[Border, Box, Box], bool]) -> list[Piece]:
    groups = [[piece.words[0]]]
    for before, word in pairwise(piece.words):
        if any(cuts(b, before.box, word.box) for b in borders):
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


def _meets(border: Border, a: Box, b: Box) -> bool:
    """Whether the space between two words overlaps the gap of a border."""
    left, right = (a, b) if a.l <= b.l else (b, a)
    return left.cx < border.at < right.cx and left.r < border.right and right.l > border.left


def _at_home(box: Box, borders: Sequence[Border], extents: Sequence[tuple[float, float]]) -> bool:
    """Whether a box is flush with, or centred on, the text of the column that it is in."""
    left, right = extents[sum(border.at < box.cx for border in borders)]
    slack = 0.4 * box.height
    return min(abs(box.l - left), abs(box.r - right), abs(box.l + box.r - left - right) / 2) < slack


def extents_of(
    rows: Sequence[Sequence[Piece]],
    borders: Sequence[Border],
    em: float,
    otherwise: Sequence[tuple[float, float]] = (),
) -> list[tuple[float, float]]:
    """From where to where the text of each column runs; `otherwise` says it for columns without text."""
    boxes: list[list[Box]] = [[] for _ in range(len(borders) + 1)]
    for row in rows:
        for piece in row:
            first, last = columns_of(piece.box, borders, em)
            if first == last:
                boxes[first].append(piece.box)
    edges = [b.at for b in borders]
    bare = otherwise or [(edges[max(0, c - 1)], edges[min(c, len(edges) - 1)]) for c in range(len(boxes))]
    return [
        (min(b.l for b in found), max(b.r for b in found)) if found else between
        for found, between in zip(boxes, bare, strict=True)
    ]


def columns_of(box: Box, borders: Sequence[Border], em: float) -> tuple[int, int]:
    """The first and last column that a box reaches into."""
    edges = [float("-inf"), *(b.at for b in borders), float("inf")]
    shares = [min(box.r, right) - max(box.l, left) for left, right in pairwise(edges)]
    least = min(0.5 * box.width, 0.6 * em)
    reached = [i for i, share in enumerate(shares) if share > 0 and share >= least]
    best = max(range(len(shares)), key=lambda i: shares[i])
    return (min(reached), max(reached)) if reached else (best, best)
