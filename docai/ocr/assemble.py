"""Lines and regions of a page become its blocks."""

from __future__ import annotations

import re
from collections.abc import Container, Sequence
from dataclasses import replace

import numpy as np

from docai.geometry import inside, union
from docai.ocr.joining import Joined, Printed, in_reading_order, join_lines, join_rows, rows_of, spans_of, word_places
from docai.ocr.line_ends import meant_ends
from docai.ocr.tables import build_table
from docai.types import Block, Label, Line, Link, Page, PageContent, Region, Span, Table
from docai.writing import is_rtl

# A line belongs to a region that holds this share of it; one that several regions share is cut between its words.
_MOSTLY = 0.6

_BULLET = re.compile(r"^([•◦▪▫●○■□‣⁃∙·–—*➢➤✓✔\-\u2212])\s+")
_NUMBER = re.compile(
    r"^(\(?(?:\d{1,3}|[a-zA-Z]|[ivxlcIVXLC]{1,5})[.)]|\[\d{1,3}\]|\d{1,2}(?:\.\d{1,2}){1,3}\.?|[①-⑳]|[一二三四五六七八九十]+、)\s*"
)


def assemble(page: Page, lines: Sequence[Line], content: PageContent, regions: Sequence[Region]) -> list[Block]:
    """Blocks of a page in reading order.

    `regions` come with their order; lines that none of them holds become text blocks of their own, each after the
    region that it follows on the page, so that no text is lost. `content` gives rules and fills to the tables and
    links to the text, in the frame of `page`.
    """
    ordered = sorted(regions, key=lambda region: float("inf") if region.order is None else region.order)
    owned, orphans = assign(lines, ordered)
    parts = [
        (region, held) for region, held in zip(ordered, owned, strict=True) if held or region.label is Label.FIGURE
    ]
    for region, held in adopt(orphans):
        parts.insert(_place(region, [r for r, _ in parts]), (region, held))
    printed = Printed(lines)
    blocks = [block for region, held in parts for block in _blocks(page, region, held, content, printed)]
    return [replace(block, id=f"p{page.index + 1}-b{n}") for n, block in enumerate(blocks, 1)]


def assign(lines: Sequence[Line], regions: Sequence[Region]) -> tuple[list[list[Line]], list[Line]]:
    """The lines of each region, and those that no region holds. Of nested regions the smallest takes a line."""
    owned: list[list[Line]] = [[] for _ in regions]
    orphans: list[Line] = []
    by_size = sorted(range(len(regions)), key=lambda i: regions[i].box.area)
    shares = shares_in(lines, [regions[i] for i in by_size])
    for line, share in zip(lines, shares, strict=True):
        for piece, home in _homes(line, regions, by_size, share):
            (orphans if home is None else owned[home]).append(piece)
    return owned, orphans


def shares_in(lines: Sequence[Line], regions: Sequence[Region]) -> list[list[float]]:
    """For each line the share of its box that lies in each region."""
    left, top, right, bottom = np.array([line.box.as_tuple() for line in lines], float).reshape(-1, 4).T[:, :, None]
    outer = np.array([region.box.as_tuple() for region in regions], float).reshape(-1, 4).T
    width = np.minimum(right, outer[2]) - np.maximum(left, outer[0])  # (lines, regions)
    height = np.minimum(bottom, outer[3]) - np.maximum(top, outer[1])
    area = np.maximum((right - left) * (bottom - top), 1e-6)
    shares: list[list[float]] = (np.maximum(width, 0) * np.maximum(height, 0) / area).tolist()
    return shares


def _homes(
    line: Line, regions: Sequence[Region], by_size: Sequence[int], shares: Sequence[float]
) -> list[tuple[Line, int | None]]:
    """The parts of a line, each with the region that takes it. `shares` are in the order of `by_size`."""
    home = next((i for i, share in zip(by_size, shares, strict=True) if share >= _MOSTLY), None)
    if home is not None:
        return [(line, home)]
    touched = [i for i, share in zip(by_size, shares, strict=True) if share > 0.1]
    if len(line.words) < 2 or not touched:
        return [(line, touched[0] if len(touched) == 1 and max(shares) > 0.3 else None)]
    return _split(line, regions, touched)


def _split(line: Line, regions: Sequence[Region], touched: Sequence[int]) -> list[tuple[Line, int | None]]:
    """A line that runs over several regions, cut where its words change region."""
    pieces: list[tuple[list[int], int | None]] = []
    for n, word in enumerate(line.words):
        home = next((i for i in touched if inside(word.box, regions[i].box) >= 0.5), None)
        if pieces and pieces[-1][1] == home:
            pieces[-1][0].append(n)
        else:
            pieces.append(([n], home))
    return [(part_of(line, numbers), home) for numbers, home in pieces]


def part_of(line: Line, numbers: Sequence[int]) -> Line:
    """The line made of some consecutive words of `line`."""
    words = tuple(line.words[n] for n in numbers)
    places = word_places(line)
    if len(places) == len(line.words):
        text = line.text[places[numbers[0]][1] : places[numbers[-1]][2]]
    else:
        text = " ".join(word.text for word in words)
    return replace(line, text=text, words=words, box=union(word.box for word in words))


def adopt(orphans: Sequence[Line]) -> list[tuple[Region, list[Line]]]:
    """Lines without a region as text regions: consecutive ones that stand close together make one."""
    groups: list[list[Line]] = []
    for row in rows_of(orphans):
        for line in row:
            near = next((g for g in groups if _follows(g[-1], line)), None)
            if near is not None:
                near.append(line)
            else:
                groups.append([line])
    return [(Region(union(line.box for line in group), Label.TEXT), group) for group in groups]


def _follows(last: Line, line: Line) -> bool:
    gap = line.box.t - last.box.b
    shared = min(last.box.r, line.box.r) - max(last.box.l, line.box.l)
    return -0.5 * line.box.height < gap < 0.8 * line.box.height and shared > 0 and last.angle == line.angle


def _place(region: Region, others: Sequence[Region]) -> int:
    """Where a region without order goes: behind the nearest region above it in its own column."""
    above = [
        (region.box.t - other.box.b, i)
        for i, other in enumerate(others)
        if other.box.cy <= region.box.cy and min(other.box.r, region.box.r) > max(other.box.l, region.box.l)
    ]
    if above:
        return min(above, key=lambda item: abs(item[0]))[1] + 1
    return next((i for i, other in enumerate(others) if other.box.t > region.box.t), len(others))


def _blocks(
    page: Page, region: Region, lines: list[Line], content: PageContent, printed: Container[str]
) -> list[Block]:
    if region.label is Label.TABLE:
        return _table_blocks(page, region, lines, content)
    return [_text_block(page, region, lines, content.links, printed)]


def _table_blocks(page: Page, region: Region, lines: list[Line], content: PageContent) -> list[Block]:
    table = build_table(region.box, lines, content.rules, content.fills)
    if table is not None:
        table = mirrored(table) if is_rtl(table_text(table)) else table
        return [_block(page, region, lines, text=table_text(table), table=table)]
    rows = [(Region(union(line.box for line in row), Label.TEXT), row) for row in rows_of(lines)]
    return [_text_block(page, row_region, row, content.links) for row_region, row in rows]


def mirrored(table: Table) -> Table:
    """A right-to-left table with its rightmost column first, as it is read."""
    cells = [replace(cell, col=table.cols - cell.col - cell.colspan) for cell in table.cells]
    return replace(table, cells=tuple(sorted(cells, key=lambda cell: (cell.row, cell.col))))


def table_text(table: Table) -> str:
    """A table as plain text: a line a row, a tab between cells."""
    grid = [[""] * table.cols for _ in range(table.rows)]
    for cell in table.cells:
        grid[cell.row][cell.col] = cell.text.replace("\n", " ")
    return "\n".join("\t".join(row).rstrip("\t") for row in grid)


def _text_block(
    page: Page, region: Region, lines: list[Line], links: Sequence[Link], printed: Container[str] = ()
) -> Block:
    lines = in_reading_order(lines)
    ends = meant_ends(lines) if region.label is Label.TEXT else ()
    joined = join_rows(lines) if region.label is Label.CODE else join_lines(lines, printed, ends)
    emphasis_is_implied = region.label in (Label.TITLE, Label.HEADING)
    spans = spans_of(joined, links, skip=frozenset({"bold"}) if emphasis_is_implied else frozenset())
    marker, joined, spans = _take_marker(region.label, joined, spans)
    return _block(page, region, lines, text=joined.text.strip("\n"), spans=spans, marker=marker)


def _take_marker(label: Label, joined: Joined, spans: tuple[Span, ...]) -> tuple[str, Joined, tuple[Span, ...]]:
    """A list item's mark apart from its text; the ranges move along."""
    found = (_BULLET.match(joined.text) or _NUMBER.match(joined.text)) if label is Label.LIST_ITEM else None
    if not found or found.end() == len(joined.text):
        return "", joined, spans
    cut = found.end()
    moved = tuple(replace(s, start=max(0, s.start - cut), end=s.end - cut) for s in spans if s.end > cut)
    return found[1], Joined(joined.text[cut:], ()), moved


def _block(
    page: Page,
    region: Region,
    lines: Sequence[Line],
    *,
    text: str,
    spans: tuple[Span, ...] = (),
    marker: str = "",
    table: Table | None = None,
) -> Block:
    return Block(
        id="",
        page=page.index,
        region=region,
        text=text,
        lines=tuple(lines),
        spans=spans,
        table=table,
        marker=marker,
        confidence=_confidence(lines),
        source=_source(lines),
    )


def _confidence(lines: Sequence[Line]) -> float | None:
    """Mean over the lines that state one, weighted by their length."""
    known = [(line.confidence, len(line.text)) for line in lines if line.confidence is not None]
    total = sum(length for _, length in known)
    return round(sum(c * length for c, length in known) / total, 4) if total else None


def _source(lines: Sequence[Line]) -> str:
    lengths: dict[str, int] = {}
    for line in lines:
        lengths[line.source] = lengths.get(line.source, 0) + len(line.text)
    return max(lengths, key=lambda name: lengths[name]) if lengths else "layout"
