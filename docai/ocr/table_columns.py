"""The columns of a table: from vertical rules, and from gaps that stay open over its rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from docai.geometry import union
from docai.layout.grid import CURRENCY, Piece, Track, is_number
from docai.types import Box

_JOIN = 0.4  # em: words of a table closer than this are one piece (a space is 0.25 to 0.33 em)


@dataclass(frozen=True, slots=True)
class Gap:
    """A vertical strip without text: `support` rows have text on both sides of it."""

    left: float
    right: float
    support: int

    @property
    def width(self) -> float:
        return self.right - self.left


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
    free = [
        Border((gap.left + gap.right) / 2, gap.left, gap.right)
        for gap in open_gaps(rows, em)
        if _enough(gap, strength, em) and not any(gap.left - em / 2 <= b.at <= gap.right + em / 2 for b in ruled)
    ]
    return sorted(ruled + free, key=lambda border: border.at)


def _divides(track: Track, rows: Sequence[Sequence[Piece]], box: Box, em: float) -> bool:
    """Whether a vertical rule has text on both sides and runs along at least a row."""
    if track.length < 0.8 * em:
        return False
    edges = [p.box for row in rows for p in row]
    return min(b.cx for b in edges) < track.at < max(b.cx for b in edges) and box.l < track.at < box.r


def _enough(gap: Gap, strength: int, em: float) -> bool:
    if gap.width < 0.35 * em:
        return False
    if gap.width < 0.6 * em:
        return gap.support >= max(3, strength)
    return gap.support >= strength or (gap.width >= 1.5 * em and gap.support >= strength - 1)


def open_gaps(rows: Sequence[Sequence[Piece]], em: float) -> list[Gap]:
    """Strips that no piece crosses once those that span several columns are set aside."""
    spanning = {id(piece) for gap in _tolerant_gaps(rows, em) for piece in _crossing(gap, rows, em)}
    kept = [[piece for piece in row if id(piece) not in spanning] for row in rows]
    return [gap for gap in _gaps(kept, lambda support, oppose: oppose == 0) if gap.support > 0]


def _tolerant_gaps(rows: Sequence[Sequence[Piece]], em: float) -> list[Gap]:
    found = _gaps(rows, lambda support, oppose: support >= 2 and oppose <= 0.5 * support)
    return [gap for gap in found if gap.width >= 0.35 * em]


def _crossing(gap: Gap, rows: Sequence[Sequence[Piece]], em: float) -> list[Piece]:
    """Pieces that run over a gap and over text on both sides of it in other rows."""
    across = [p for row in rows for p in row if p.box.l < gap.left - 0.3 * em and p.box.r > gap.right + 0.3 * em]
    if not across:
        return []
    middle = (gap.left + gap.right) / 2
    left = sorted(max((p.box.r for p in row if p.box.r <= middle), default=box_edge(row)) for row in rows)
    right = sorted(min((p.box.l for p in row if p.box.l >= middle), default=-box_edge(row)) for row in rows)
    return [p for p in across if any(p.box.l < x < middle for x in left) and any(middle < x < p.box.r for x in right)]


def box_edge(row: Sequence[Piece]) -> float:
    """A place that lies left of all text."""
    return float("-inf")


def _gaps(rows: Sequence[Sequence[Piece]], keep) -> list[Gap]:  # type: ignore[no-untyped-def]
    edges = sorted({x for row in rows for p in row for x in (p.box.l, p.box.r)})
    index = {x: i for i, x in enumerate(edges)}
    support, oppose = [0] * (len(edges) + 1), [0] * (len(edges) + 1)
    for row in rows:
        reach = None
        for piece in row:
            oppose[index[piece.box.l]] += 1
            oppose[index[piece.box.r]] -= 1
            if reach is not None and piece.box.l > reach:
                support[index[reach]] += 1
                support[index[piece.box.l]] -= 1
            reach = piece.box.r if reach is None else max(reach, piece.box.r)
    return _regions(edges, support, oppose, keep)


def _regions(edges, support, oppose, keep) -> list[Gap]:  # type: ignore[no-untyped-def]
    found: list[Gap] = []
    s = o = 0
    for i in range(len(edges) - 1):
        s, o = s + support[i], o + oppose[i]
        if not keep(s, o):
            continue
        if found and found[-1].right == edges[i]:
            found[-1] = Gap(found[-1].left, edges[i + 1], max(found[-1].support, s))
        else:
            found.append(Gap(edges[i], edges[i + 1], s))
    return found


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
    shares = [min(box.r, right) - max(box.l, left) for left, right in zip(edges, edges[1:], strict=False)]
    least = min(0.5 * box.width, 0.6 * em)
    reached = [i for i, share in enumerate(shares) if share > 0 and share >= least]
    best = max(range(len(shares)), key=lambda i: shares[i])
    return (min(reached), max(reached)) if reached else (best, best)
