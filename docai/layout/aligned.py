"""Tables that only whitespace marks: short texts and numbers in columns over several rows."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from statistics import median

from docai.geometry import union
from docai.layout.captions import is_caption
from docai.layout.chains import Rows, Walls, chains, running_text
from docai.layout.gaps import Gap, open_gaps
from docai.layout.grid import CURRENCY, Piece, is_number, is_year, pieces_of, visual_rows, words_in
from docai.types import Box, Line

_GAP = 0.9  # em: words further apart may be in two columns
_ROWS = 3  # rows with text in several columns that a table has at least
_PAIR = 2  # rows of a table that is only a heading over values, of which more is asked
_FEWEST_HEADS = 3  # columns of such a table
_APART = 1.0  # em between its columns
_LONGEST_HEAD = 5  # words
_LEVEL = 0.6  # em by which a value may stand beside its heading
_FILLED = 0.4  # share of a table's places that hold text; the labels of a chart fill fewer
_LEADER = re.compile(r"(?:\.\s?){4,}|…{2,}|_{4,}")


def aligned_tables(lines: Sequence[Line], em: float) -> list[Box]:
    """Boxes of tables among lines that no ruled table holds."""
    level = [line for line in lines if line.angle == 0 and not line.vertical]
    if len(level) < 2 * _ROWS:
        return []
    running = running_text(level, em)
    loose = [line for line in level if id(line) not in running]
    if len(loose) < _PAIR:
        return []
    rows = visual_rows([piece for line in loose for piece in pieces_of(line, _GAP * em)])
    if sum(len(row) > 1 for row in rows) < _PAIR:
        return []
    walls = Walls([line.box for line in level if id(line) in running])
    return [box for chain in chains(rows, walls, em, _PAIR) for box in _tables_in(chain, em)]


def _tables_in(chain: Rows, em: float) -> list[Box]:
    """The tables of a chain of rows: all of it, or what headings leave of it."""
    found: list[Box] = []
    for part in _between_headers(chain):
        whole = _table(part, em)
        pieces = [] if whole else _between_headings(part, em)
        found += [whole] if whole else [box for p in pieces if len(pieces) > 1 and (box := _table(p, em)) is not None]
    return found


def _between_headers(chain: Rows) -> list[Rows]:
    """A chain cut where, after rows with numbers and some room, a row without any heads the next rows."""
    if len(chain) < _PAIR:
        return []
    usual = _usual_step(chain)
    parts, left = [chain[:1]], min(row[0].box.l for row in chain)
    for above, row in pairwise(chain):
        heads = len(row) > 1 or row[0].box.l > left + 4 * row[0].box.height
        if _step(above, row) > 1.6 * usual and heads and _numbers(above) and not _numbers(row):
            parts.append([])
        parts[-1].append(row)
    return parts


def _numbers(row: Sequence[Piece]) -> bool:
    return any(is_number(piece.text) for piece in row)


def _table(chain: Rows, em: float) -> Box | None:
    rows = _trimmed(chain)
    several = [row for row in rows if len(row) > 1]
    if len(several) < _ROWS:
        heads = len(several) == len(rows) == _PAIR and _heads_values(rows[0], rows[1], em)
        return union(p.box for row in rows for p in row) if heads else None
    often = max(_ROWS, 0.5 * len(several))
    gaps = [g for g in open_gaps(rows, em) if g.support >= often and g.width >= (0.6 if g.support < 5 else 0.35) * em]
    if not gaps or not _convincing(rows, several, gaps):
        return None
    return union(p.box for row in rows for p in row)


def _heads_values(heads: Sequence[Piece], values: Sequence[Piece], em: float) -> bool:
    """Whether two rows are short headings without digits, each over a value, some of which are numbers or dates."""
    if not len(heads) == len(values) >= _FEWEST_HEADS or _code([*heads, *values]):
        return False
    if any(words_in(p.text) > _LONGEST_HEAD for p in (*heads, *values)) or any(_digits(p.text) for p in heads):
        return False
    columns = [union((above.box, below.box)) for above, below in zip(heads, values, strict=True)]
    if any(b.l - a.r < _APART * em for a, b in pairwise(columns)) or not any(_digits(p.text) > 0.5 for p in values):
        return False
    pairs = zip((p.box for p in heads), (p.box for p in values), strict=True)
    return all(min(abs(a.l - b.l), abs(a.r - b.r), abs(a.cx - b.cx)) < _LEVEL * em for a, b in pairs)


def _digits(text: str) -> float:
    """Which share of the letters and digits of a text are digits."""
    counted = [c.isdigit() for c in text if c.isalnum()]
    return sum(counted) / len(counted) if counted else 0.0


def _between_headings(chain: Rows, em: float) -> list[Rows]:
    """A chain cut at single texts that stand out: bold, larger, or with more room above than is usual."""
    parts: list[Rows] = [[]]
    if len(chain) < _PAIR:
        return []
    usual = _usual_step(chain)
    for i, row in enumerate(chain):
        line = row[0].line
        apart = i > 0 and _step(chain[i - 1], row) > 1.5 * usual
        if apart or (len(row) == 1 and (line.bold or line.size > 1.1 * em)):
            parts.append([])
        parts[-1].append(row)
    return parts


def _usual_step(chain: Rows) -> float:
    return median(_step(a, b) for a, b in pairwise(chain))


def _step(above: Sequence[Piece], below: Sequence[Piece]) -> float:
    return below[0].box.cy - above[0].box.cy


def _trimmed(chain: Rows) -> Rows:
    """Without captions, headings and notes before and after the rows with several texts."""
    full = [i for i, row in enumerate(chain) if len(row) > 1 and not is_caption(row[0].line.text)]
    if not full:
        return []
    first, last = full[0], full[-1]
    stub = union(row[0].box for row in chain[first : last + 1])
    while last + 1 < len(chain) and _wraps(chain[last], chain[last + 1], stub):
        last += 1
    if first > 0 and _heads(chain[first - 1], chain[first]):
        first -= 1
    return chain[first : last + 1]


def _wraps(above: Sequence[Piece], row: Sequence[Piece], stub: Box) -> bool:
    """Whether a row is the wrapped rest of the first column of the row above."""
    box = row[0].box
    close = box.t - above[0].box.b < 0.5 * box.height
    return close and len(row) == 1 and abs(box.l - stub.l) < 2 * box.height and box.r < stub.r + 0.5 * box.height


def _heads(row: Sequence[Piece], below: Sequence[Piece]) -> bool:
    """Whether a single text stands over columns behind the first: a heading over several columns."""
    piece, stub = row[0].box, below[0].box
    right = max(p.box.r for p in below)
    close = below[0].box.t - piece.b < 0.8 * piece.height
    return (
        close
        and len(row) == 1
        and not row[0].text[0].islower()
        and piece.l > stub.l + 2 * piece.height
        and piece.r < right + piece.height
    )


def _convincing(rows: Rows, several: Rows, gaps: Sequence[Gap]) -> bool:
    """Whether aligned rows are a table: columns of numbers, or short texts in three columns and more."""
    columns = _columns(rows, gaps)
    if _code([p for row in rows for p in row]) or _contents(columns):
        return False
    if sum(len(column) for column in columns) < _FILLED * len(rows) * len(columns):
        return False
    numeric = [c for c in columns if len(c) >= _ROWS and sum(is_number(p.text) for p in c) >= 0.6 * len(c)]
    values = [c for c in numeric if any(re.search(r"\d", p.text) for p in c)]
    if _leaders(rows) and len(values) < 2:
        return False
    if len(values) >= 2 and len(columns) >= 2:
        return True
    filled = [c for c in columns if len(c) >= 0.6 * len(several)]
    short = median(words_in(p.text) for row in several for p in row) <= 4
    if len(values) == 1 and len(filled) >= 3 and short:
        return True
    if len(columns) > 1 and _keys(columns[0]) and short:
        return True
    return len(filled) >= 3 and len(several) >= 4 and short and len(several) >= 0.7 * len(rows) and not _list(columns)


def _columns(rows: Rows, gaps: Sequence[Gap]) -> list[list[Piece]]:
    edges = [(g.left + g.right) / 2 for g in gaps]
    columns: list[list[Piece]] = [[] for _ in range(len(edges) + 1)]
    for row in rows:
        for piece in row:
            if piece.text not in CURRENCY and not any(piece.box.l < x < piece.box.r for x in edges):
                columns[sum(x < piece.box.cx for x in edges)].append(piece)
    return columns


def _leaders(rows: Rows) -> bool:
    """Dot leaders: a table of contents, or a form."""
    dotted = sum(any(_LEADER.search(p.text) for p in row) for row in rows)
    return dotted >= 0.3 * len(rows)


def _code(pieces: Sequence[Piece]) -> bool:
    """A font of fixed width, and not for the sake of numbers."""
    mono = sum(p.line.mono for p in pieces)
    return mono > 0.6 * len(pieces) and sum(is_number(p.text) for p in pieces) < 0.4 * len(pieces)


def _contents(columns: Sequence[Sequence[Piece]]) -> bool:
    """Whether the last column are page numbers: whole numbers that never fall, and the only column of values."""
    numbers = [p.text for p in columns[-1] if re.fullmatch(r"\d{1,4}", p.text)]
    if len(numbers) < _ROWS or len(numbers) < 0.8 * len(columns[-1]) or any(is_year(n) for n in numbers):
        return False
    rising = all(int(a) <= int(b) for a, b in pairwise(numbers))
    others = [p for c in columns[1:-1] for p in c if is_number(p.text)]
    return rising and len(others) < 0.3 * len(numbers)


def _keys(column: Sequence[Piece]) -> bool:
    """Whether a column holds the names of values: "Order type:"."""
    return len(column) >= _ROWS and sum(p.text.rstrip().endswith(":") for p in column) > 0.8 * len(column)


def _list(columns: Sequence[Sequence[Piece]]) -> bool:
    """Whether the first column are marks of list items."""
    marks = sum(bool(re.fullmatch(r"[•◦▪■●\-–—*]|\(?\w{1,3}[.)]", p.text)) for p in columns[0])
    return marks > 0.6 * max(1, len(columns[0]))
