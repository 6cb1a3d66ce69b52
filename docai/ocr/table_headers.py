"""Where the header of a table ends, which of its lines make one level, and which columns each heading heads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from docai.layout.grid import Track
from docai.ocr.table_rows import Placed, Row, columns, numeric_row
from docai.types import Box

_MOST_LINES = 8  # visual rows of a header
_FULL = 0.8  # share of the table's width that a rule under the header covers


@dataclass(frozen=True, slots=True)
class Band:
    """Visual rows between two horizontal rules; `above` is the rule over them, `level` says it parts whole columns."""

    rows: list[Row]
    above: Track | None = None


def split_header(bands: Sequence[Band], extent: Box) -> tuple[list[Band], list[Band]]:
    """The bands of the header, and those of the body."""
    for k in range(1, len(bands)):
        above = bands[k].above
        if above is not None and above.covers(extent.l, extent.r) >= _FULL:
            head, body = list(bands[:k]), list(bands[k:])
            if _is_header([r for b in head for r in b.rows], [r for b in body for r in b.rows]):
                return head, body
            break
    return _by_text(bands)


def _is_header(head: Sequence[Row], body: Sequence[Row]) -> bool:
    return len(head) <= min(_MOST_LINES, max(2, 2 * len(body))) and sum(numeric_row(row) for row in head) * 2 < len(
        head
    )


def _by_text(bands: Sequence[Band]) -> tuple[list[Band], list[Band]]:
    """Leading rows without numbers over rows with numbers, or bold ones over others, are the header."""
    rows = [row for band in bands for row in band.rows]
    keys = [p.piece.text for row in rows for p in row if p.first == 0]
    if sum(text.endswith(":") for text in keys) > 0.6 * len(keys):
        return [], list(bands)
    count = next((i for i, row in enumerate(rows) if numeric_row(row)), 0)
    if not 0 < count <= _MOST_LINES or count > (len(rows) + 1) / 2:
        count = next((i for i, row in enumerate(rows) if not _bold(row)), 0)
        count = 0 if count > _MOST_LINES or count * 2 > len(rows) else count
    while count and _title_of_section(rows, count):
        count -= 1
    return _cut(bands, count)


def _bold(row: Row) -> bool:
    return all(p.piece.line.bold for p in row)


def _title_of_section(rows: Sequence[Row], count: int) -> bool:
    """Whether the last row of a header only titles the rows below it."""
    return count > 1 and columns(rows[count - 1]) == {0} and len(columns(rows[count - 2])) > 1


def _cut(bands: Sequence[Band], count: int) -> tuple[list[Band], list[Band]]:
    head: list[Band] = []
    for i, band in enumerate(bands):
        if count < len(band.rows):
            body = [Band(band.rows[count:], band.above if count == 0 else None), *bands[i + 1 :]]
            return ([*head, Band(band.rows[:count], band.above)] if count else head), body
        head.append(band)
        count -= len(band.rows)
    return head, []


Extents = Sequence[tuple[float, float]]  # from where to where the text of each column runs


def header_groups(head: Sequence[Band], extents: Extents, heads: Extents, em: float) -> list[list[Row]]:
    """The visual rows of a header in levels, each heading with the columns that it heads.

    `extents` are those of the text below the header, `heads` those of all text.
    """
    groups: list[list[Row]] = []
    for i, band in enumerate(head):
        under = head[i + 1] if i + 1 < len(head) else None
        for j, row in enumerate(band.rows):
            below = {c for r in band.rows[j + 1 :] for c in columns(r)}
            below |= {c for b in head[i + 1 :] for r in b.rows for c in columns(r)}
            rule = under.above if under is not None and j == len(band.rows) - 1 else None
            wide = _widened(row, below, rule, extents, heads, em) if below else row
            if groups and j > 0 and not _heads(groups[-1], wide):
                groups[-1].append(wide)
            else:
                groups.append([wide])
    return groups


def _heads(group: list[Row], row: Row) -> bool:
    """Whether a level has a heading over several columns of `row`, which so is a level of its own."""
    return any(
        p.spans and sum(p.first <= q.first and q.last <= p.last for q in row) > 1 for above in group for p in above
    )


def _widened(row: Row, below: set[int], rule: Track | None, extents: Extents, heads: Extents, em: float) -> Row:
    """Headings with all columns that they stand over: those of the rule under them, or those they are centred over."""
    wide = _even_shares(row, below)
    if wide:
        return wide
    found = []
    for piece in row:
        taken = {c for p in row if p is not piece for c in range(p.first, p.last + 1)}
        ruled = _ruled(piece, rule, extents, em) if rule is not None else None
        if ruled and not taken & set(range(ruled[0], ruled[1] + 1)):
            found.append(replace(piece, first=ruled[0], last=ruled[1]))
        else:
            found.append(_centred(piece, taken, below, extents, heads, em))
    return found


def _even_shares(row: Row, below: set[int]) -> Row:
    """Several headings, each over the middle one of an odd number of columns, the same number for all."""
    count = len(row)
    first = min(row[0].first, *below) if below else 0
    for stub in range(first, row[0].first):
        free = sorted(c for c in below if c >= stub)
        share = len(free) // count
        if count < 2 or share < 3 or share % 2 == 0 or len(free) % count or free != list(range(stub, stub + len(free))):
            continue
        middles = [stub + i * share + share // 2 for i in range(count)]
        if all(p.first <= m <= p.last for p, m in zip(row, middles, strict=True)):
            half = share // 2
            return [replace(p, first=m - half, last=m + half) for p, m in zip(row, middles, strict=True)]
    return []


def _ruled(piece: Placed, rule: Track, extents: Extents, em: float) -> tuple[int, int] | None:
    """The columns over a rule under a heading; runs of it that lie close count as one where the heading is centred."""
    cx = piece.piece.box.cx
    joined: list[tuple[float, float]] = []
    for start, end in rule.runs:
        if joined and start - joined[-1][1] < 1.5 * em:
            joined[-1] = (joined[-1][0], end)
        else:
            joined.append((start, end))
    whole = [run for run in joined if abs((run[0] + run[1]) / 2 - cx) < em]
    run = next((run for run in (*whole, *rule.runs) if run[0] <= cx <= run[1]), None)
    if run is None:
        return None
    over = [
        c for c, (left, right) in enumerate(extents) if min(right, run[1]) - max(left, run[0]) > 0.5 * (right - left)
    ]
    return (min(over), max(over)) if over and len(over) < len(extents) else None


def _centred(piece: Placed, taken: set[int], below: set[int], extents: Extents, heads: Extents, em: float) -> Placed:
    """A heading with the columns that it is centred over, if it is not so on its own column's text or heads."""
    low, high = piece.first, piece.last
    while low - 1 in below - taken:
        low -= 1
    while high + 1 in below - taken:
        high += 1
    cx = piece.piece.box.cx
    options = [
        (abs((extents[a][0] + extents[b][1]) / 2 - cx), a, b)
        for a in range(low, piece.first + 1)
        for b in range(piece.last, high + 1)
    ]
    own = min(abs((e[piece.first][0] + e[piece.last][1]) / 2 - cx) for e in (extents, heads))
    off, first, last = min(options, key=lambda o: (o[0], o[2] - o[1]))
    close = off < 0.7 * em and own > max(0.9 * em, 2 * off)
    if (first, last) != (piece.first, piece.last) and (close or 3 * off < min(own, 4 * em)):
        return replace(piece, first=first, last=last)
    return piece
