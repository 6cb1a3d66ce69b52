"""Tables as models write them: HTML, markdown with pipes, LaTeX's tabular.

All cells get the box of the whole: models do not say where in it a cell lies. Sizes are bounded, since a model that
loops writes tables without end.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html.parser import HTMLParser

from docai.types import Box, Cell, Table

MOST_ROWS, MOST_COLUMNS = 4096, 512


@dataclass(slots=True)
class Draft:
    """A cell as it is written: without its place."""

    text: str = ""
    rows: int = 1
    columns: int = 1
    header: bool = False


def placed(rows: Sequence[Sequence[Draft]], box: Box) -> Table | None:
    """Cells in the grid that their spans make, as browsers lay them out; None where there is none.

    A span ends before a place that is taken. Rows of nothing at the end are left out.
    """
    taken: set[tuple[int, int]] = set()
    cells: list[Cell] = []
    rows = rows[:MOST_ROWS]
    for row, drafts in enumerate(rows):
        column = 0
        for draft in drafts:
            while (row, column) in taken:
                column += 1
            if column >= MOST_COLUMNS:
                break
            wide = _free(taken, row, column, min(draft.columns, MOST_COLUMNS - column))
            tall = max(1, min(draft.rows, len(rows) - row))
            taken |= {(row + i, column + j) for i in range(tall) for j in range(wide)}
            cells.append(Cell(row, column, draft.text, box, tall, wide, draft.header))
            column += wide
    if not any(cell.text for cell in cells):
        return None
    return Table(max(c.row + c.rowspan for c in cells), max(c.col + c.colspan for c in cells), tuple(cells))


def _free(taken: set[tuple[int, int]], row: int, column: int, wide: int) -> int:
    return next((n for n in range(1, wide) if (row, column + n) in taken), max(1, wide))


# --- HTML


def html_table(markup: str, box: Box) -> Table | None:
    """The first `<table>` in some HTML, however broken."""
    reader = _HtmlTable()
    reader.feed(markup)
    reader.close()
    return placed(reader.rows, box)


@dataclass(slots=True)
class _Level:
    """A table that is being read; tables within it are text of its cells."""

    depth: int = 0
    head: bool = False
    cell: Draft | None = None


class _HtmlTable(HTMLParser):
    """Reads rows and cells; tags that are missing are made up as browsers do."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.rows: list[list[Draft]] = []
        self._at = _Level()
        self._done = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "table":
            self._at.depth += 1
        if self._done or not self._at.depth:
            return
        if self._at.depth > 1:
            self._put(" " if tag in ("tr", "td", "th") else "")
        elif tag in ("thead", "tbody", "tfoot"):
            self._at.head = tag == "thead"
        elif tag == "tr":
            self._end_cell()
            self.rows.append([])
        elif tag in ("td", "th"):
            self._start_cell(tag, dict(attrs))
        elif tag in ("br", "p", "li", "div") and self._at.cell is not None and self._at.cell.text.strip():
            self._put("\n")

    def handle_endtag(self, tag: str) -> None:
        if tag == "table" and self._at.depth:
            self._at.depth -= 1
            if not self._at.depth:
                self._end_cell()
                self._done = True
        elif tag in ("td", "th", "tr") and self._at.depth == 1:
            self._end_cell()

    def handle_data(self, data: str) -> None:
        self._put(data)

    def close(self) -> None:
        super().close()
        self._end_cell()

    def _start_cell(self, tag: str, said: dict[str, str | None]) -> None:
        self._end_cell()
        if not self.rows:
            self.rows.append([])
        header = tag == "th" or self._at.head
        self._at.cell = Draft("", _span(said.get("rowspan")), _span(said.get("colspan")), header)
        self.rows[-1].append(self._at.cell)

    def _end_cell(self) -> None:
        if self._at.cell is not None:
            self._at.cell.text = tidy(self._at.cell.text)
        self._at.cell = None

    def _put(self, text: str) -> None:
        if self._at.cell is not None and not self._done:
            self._at.cell.text += text


def _span(value: str | None) -> int:
    digits = re.match(r"\s*(\d{1,4})", value or "")
    return max(1, min(int(digits[1]), MOST_ROWS)) if digits else 1


def tidy(text: str) -> str:
    """Runs of blanks as one, lines without blanks around them."""
    lines = (" ".join(line.split()) for line in text.split("\n"))
    return "\n".join(line for line in lines if line)


# --- markdown

_RULER = re.compile(r"^\s*\|?\s*:?-+:?\s*(?:\|\s*:?-+:?\s*)*\|?\s*$")
_CELL = re.compile(r"(?:\\.|[^|])*")


def is_ruler(line: str) -> bool:
    """Whether a line is the one below the head of a table, `|---|:-:|`."""
    return "-" in line and "|" in line and _RULER.match(line) is not None


def pipe_table(lines: Sequence[str], box: Box) -> Table | None:
    """A table of lines with pipes; the line below its head is where it says which rows are of the head."""
    head = next((n for n, line in enumerate(lines) if is_ruler(line)), 0)
    rows = [_pipe_cells(line, header=n < head) for n, line in enumerate(lines) if not is_ruler(line)]
    return placed(rows, box)


def _pipe_cells(line: str, *, header: bool) -> list[Draft]:
    line = line.strip().removeprefix("|")
    parts: list[str] = []
    at = 0
    while at <= len(line):
        found = _CELL.match(line, at)
        assert found is not None
        parts.append(found[0])
        at = found.end() + 1
    if len(parts) > 1 and not parts[-1].strip():
        parts.pop()
    return [Draft(_cell_text(part), header=header) for part in parts]


def _cell_text(text: str) -> str:
    lines = re.split(r"<br\s*/?>", text, flags=re.IGNORECASE)
    return tidy("\n".join(bare(html.unescape(line.replace("\\|", "|"))) for line in lines))


# --- LaTeX

_TABULAR = re.compile(
    r"\\begin\{(?P<kind>tabular[xy*]?|array|longtable)\}(?P<body>.*?)(?:\\end\{(?P=kind)\}|\Z)", re.DOTALL
)
_RULES = re.compile(
    r"\\(?:hline|toprule|midrule|bottomrule|endhead|endfirsthead|endfoot|endlastfoot)\b(?:\[[^\]]*\])?"
    r"|\\(?:cline|cmidrule)(?:\([^)]*\))?\{[^}]*\}"
)
_ROW = re.compile(r"\\\\\*?(?:\[[^\]]*\])?|\\tabularnewline\b")
_MULTI = re.compile(r"\\multi(column|row)(?:\[[^\]]*\])?\s*\{([^{}]*)\}(?:\[[^\]]*\])?\s*(?:\{[^{}]*\}|\*)\s*")


def latex_table(text: str, box: Box) -> Table | None:
    """The first tabular in some LaTeX."""
    found = _TABULAR.search(text)
    if found is None:
        return None
    body = _RULES.sub(" ", _without_columns(found["body"]))
    rows = [[_latex_cell(cell) for cell in split_outside(row, "&")] for row in _rows_of(body)]
    return placed(_under_spans(rows), box)


def _without_columns(body: str) -> str:
    """The body behind its arguments: widths, positions, columns."""
    body = body.lstrip()
    while body[:1] in ("{", "["):
        close = end_of_group(body, 0)
        body = body[close:].lstrip()
    return body


def end_of_group(text: str, start: int) -> int:
    """Behind the bracket that closes the one at `start`; the end where nothing does."""
    pairs, depth = {"{": "}", "[": "]"}[text[start]], 0
    at = start
    while at < len(text):
        if text[at] == "\\":
            at += 1
        elif text[at] == text[start]:
            depth += 1
        elif text[at] == pairs:
            depth -= 1
            if not depth:
                return at + 1
        at += 1
    return len(text)


def _rows_of(body: str) -> Iterable[str]:
    parts = [part for part in _ROW.split(body) if part is not None]
    return (part for n, part in enumerate(parts) if part.strip() or n < len(parts) - 1)


def split_outside(text: str, mark: str) -> list[str]:
    """Text cut at a mark where it is neither escaped nor in braces."""
    parts, depth, start, at = [], 0, 0, 0
    while at < len(text):
        char = text[at]
        if char == "\\":
            at += 1
        elif char in "{}":
            depth += 1 if char == "{" else -1
        elif char == mark and depth <= 0:
            parts.append(text[start:at])
            start = at + 1
        at += 1
    return [*parts, text[start:]]


def _latex_cell(text: str) -> Draft:
    draft = Draft()
    text = text.strip()
    while found := _MULTI.match(text):
        count = _span(found[2].lstrip("-"))
        draft.columns, draft.rows = (count, draft.rows) if found[1] == "column" else (draft.columns, count)
        rest = text[found.end() :]
        if not rest.startswith("{"):
            text = rest
            break
        close = end_of_group(rest, 0)
        text = (rest[1 : close - 1] + rest[close:]).strip()
    draft.text = tidy(latex_text(text))
    return draft


def _under_spans(rows: list[list[Draft]]) -> list[list[Draft]]:
    """LaTeX writes an empty cell below each row of a multirow: these are not cells of their own."""
    held: dict[int, int] = {}  # column -> rows that a cell above still covers
    out: list[list[Draft]] = []
    for row in rows:
        kept, column = [], 0
        for cell in row:
            covered = held.get(column, 0) > 0 and not cell.text
            if covered:
                held[column] -= 1
            else:
                kept.append(cell)
                held |= {column + n: cell.rows - 1 for n in range(cell.columns)}
            column += cell.columns
        out.append(kept)
    return out


_STYLED = re.compile(r"\\(?:textbf|textit|textrm|textsf|texttt|emph|underline|mathbf|mathrm|text|makecell|bf)\s*\{")
_ESCAPED = re.compile(r"\\([&%$#_{}])")


def latex_text(text: str) -> str:
    """The text of a cell: styles and escapes taken away, formulas left as they are."""
    while found := _STYLED.search(text):
        close = end_of_group(text, found.end() - 1)
        text = text[: found.start()] + text[found.end() : close - 1] + text[close:]
    return _ESCAPED.sub(r"\1", text.replace("~", " ").replace("\\ ", " "))


def bare(text: str) -> str:
    """A cell of a markdown table without marks of emphasis around it, escapes taken away."""
    text = text.strip()
    for mark in ("**", "__", "*", "`"):
        if len(text) > 2 * len(mark) and text.startswith(mark) and text.endswith(mark):
            inner = text[len(mark) : -len(mark)]
            if mark not in inner:
                text = inner
    return re.sub(r"\\([\\`*_{}\[\]()#+.!|<>~$-])", r"\1", text)
