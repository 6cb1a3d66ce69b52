"""The document pass: what only all pages together can tell.

Running headers and footers (text that comes back at the same place on several pages), page numbers (numbers at an
edge that count up with the pages), heading levels (by numbering, size and weight over the whole document) and
paragraphs that go on behind a column or page border.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest

from docai.types import Block, Label, Page, PageResult, Status
from docai.writing import page_number

_EDGE = 0.14  # share of the page height, at the top and at the bottom, where furniture stands
_SIDE = 0.12  # share of the page width, at the left and at the right, where notes of a template stand
_FEWEST_STAMPED = 3  # pages on which those must come back, and on half of all
_DRIFT = 0.03  # by how much of the page height the same header may move
_ONE_SIZE = 0.8  # of the largest of some recognised headings, down to which others are of its size
_SAME = 0.9  # share of a picture's words that come back where the next one only adds to it
_LONGEST = 160  # characters; running text that comes back is no header
# "3", "3.1.", "A.2", "B." but not the article in "A note"
_NUMBERED = re.compile(r"^((?:\d{1,3}|[A-Z](?=[.)]))(?:\.\d{1,3})*)[.)]?\s+\S")
_Style = tuple[int, bool, bool]
_MOVABLE = frozenset(
    {Label.TEXT, Label.HEADING, Label.TITLE, Label.LIST_ITEM, Label.FOOTNOTE, Label.CAPTION, Label.ASIDE}
)


def settle(pages: Sequence[PageResult]) -> tuple[PageResult, ...]:
    """The pages with furniture labelled, heading levels set and continued paragraphs marked.

    Pages of a recording are slides or the states of a screen: one that the next only adds to is left out, and a title
    that comes back is no running header.
    """
    recorded = any(page.page.time is not None for page in pages)
    pages = without_builds(pages) if recorded else pages
    labels = furniture(pages)
    if recorded:
        labels = {block: label for block, label in labels.items() if label is not Label.PAGE_HEADER}
    pages = relabel(pages, labels)
    pages = with_levels(pages)
    return with_continuations(pages)


def without_builds(pages: Sequence[PageResult]) -> tuple[PageResult, ...]:
    """The pages of a recording without those whose words are all on the next one, which then begins with them."""
    kept: list[PageResult] = []
    since: float | None = None
    for page, after in zip_longest(pages, pages[1:]):
        began = page.page.time if since is None else since
        if after is not None and page.outcome.status is not Status.FAILED and _adds_to(after, page):
            since = began
            continue
        kept.append(replace(page, page=replace(page.page, time=began)))
        since = None
    return tuple(kept)


def _adds_to(after: PageResult, page: PageResult) -> bool:
    """Whether nearly all words of a page are on the page behind it, too."""
    words, more = (Counter(" ".join(block.text for block in p.blocks).split()) for p in (page, after))
    return words.total() > 0 and (words & more).total() >= _SAME * words.total()


def relabel(pages: Sequence[PageResult], labels: dict[str, Label]) -> tuple[PageResult, ...]:
    """The pages with the blocks named in `labels` (block id -> label) relabelled."""

    def mend(block: Block) -> Block:
        label = labels.get(block.id)
        return replace(block, region=replace(block.region, label=label), level=None) if label else block

    return tuple(replace(page, blocks=tuple(mend(b) for b in page.blocks)) for page in pages)


# --- running headers, footers and page numbers


@dataclass(frozen=True, slots=True)
class _Candidate:
    page: int  # position in the document
    block: Block
    key: str  # text with digits and white space levelled
    y: float  # centre, as a share of the page height
    zone: Label  # what it is, if it is furniture


def furniture(pages: Sequence[PageResult]) -> dict[str, Label]:
    """Block ids that repeat over pages, and the label that each deserves."""
    if len(pages) < 2:
        return {}
    candidates = [c for position, page in enumerate(pages) for c in _edge_blocks(position, page)]
    twins = _twin_pages(pages)
    labels: dict[str, Label] = {}
    for group in _repeating(candidates):
        distinct = {twins[c.page] for c in group}
        total = len(set(twins.values()))
        enough = max(_FEWEST_STAMPED, total / 2) if group[0].zone is Label.STAMP else _enough(total)
        if len(distinct) >= enough:
            labels |= {c.block.id: c.zone for c in group}
    return labels | dict.fromkeys(_counting(candidates), Label.PAGE_NUMBER)


def _enough(pages: int) -> int:
    """On how many pages a text must come back. Headers often alternate, so half the pages of a short document do."""
    return 2 if pages <= 6 else 3


def _edge_blocks(position: int, page: PageResult) -> Iterator[_Candidate]:
    height = page.page.height or 1.0
    for block in page.blocks:
        zone = _zone(block, page.page)
        if zone and block.text and len(block.text) <= _LONGEST and (block.label in _MOVABLE or block.furniture):
            yield _Candidate(position, block, _levelled(block.text), block.box.cy / height, zone)


def _zone(block: Block, page: Page) -> Label | None:
    """Which furniture a block at an edge of its page would be."""
    width, height, box = page.width or 1.0, page.height or 1.0, block.box
    if box.b <= _EDGE * height:
        return Label.PAGE_HEADER
    if box.t >= (1 - _EDGE) * height:
        return Label.PAGE_FOOTER
    return Label.STAMP if box.r <= _SIDE * width or box.l >= (1 - _SIDE) * width else None


def _levelled(text: str) -> str:
    return re.sub(r"\d+", "#", re.sub(r"\W+", " ", text.casefold())).strip() or text.strip()


def _repeating(candidates: Sequence[_Candidate]) -> Iterator[list[_Candidate]]:
    """Candidates of equal text at equal height, page by page."""
    by_key: dict[tuple[str, Label], list[_Candidate]] = defaultdict(list)
    for candidate in candidates:
        by_key[candidate.key, candidate.zone].append(candidate)
    for (key, _), group in by_key.items():
        if key == "#" or not any(c.isalnum() for c in key):
            continue
        group.sort(key=lambda c: c.y)
        middle = group[len(group) // 2].y
        yield [c for c in group if abs(c.y - middle) <= _DRIFT]


def _twin_pages(pages: Sequence[PageResult]) -> dict[int, int]:
    """Position of a page -> the first page that says the same: repeated pages are no sign of a running header."""
    seen: list[tuple[int, set[str]]] = []
    twins = {}
    for position, page in enumerate(pages):
        words = {word for block in page.blocks for word in block.text.split()}
        same = (first for first, other in seen[-8:] if words and len(words & other) > 0.6 * max(len(words), len(other)))
        twins[position] = next(same, position)
        if twins[position] == position:
            seen.append((position, words))
    return twins


def _counting(candidates: Sequence[_Candidate]) -> set[str]:
    """Ids of blocks that hold nothing but a number, at an edge, that counts up with the pages."""
    by_offset: dict[int, list[_Candidate]] = defaultdict(list)
    for candidate in candidates:
        number = page_number(candidate.block.text)
        if number is not None and candidate.zone is not Label.STAMP:
            by_offset[number - candidate.page].append(candidate)
    return {c.block.id for group in by_offset.values() if len({c.page for c in group}) >= 2 for c in group}


# --- heading levels


def with_levels(pages: Sequence[PageResult]) -> tuple[PageResult, ...]:
    """Headings with their level: by the depth of their numbering, else by how large and heavy they are set."""
    headings = [b for page in pages for b in page.blocks if b.label in (Label.TITLE, Label.HEADING)]
    if not headings:
        return tuple(pages)
    first = 2 if any(b.label is Label.TITLE for b in headings) else 1
    sizes = _heading_sizes(headings)
    styles = {b.id: _style(b, sizes[b.id]) for b in headings}
    ranks = _style_ranks([(b, styles[b.id]) for b in headings if b.label is Label.HEADING])
    levels = {b.id: b.level or _level(b, first, ranks, styles[b.id]) for b in headings}  # a model may have said it
    return tuple(
        replace(page, blocks=tuple(replace(b, level=levels[b.id]) if b.id in levels else b for b in page.blocks))
        for page in pages
    )


def _level(block: Block, first: int, ranks: dict[_Style, int], style: _Style) -> int:
    if block.label is Label.TITLE:
        return 1
    numbered = _NUMBERED.match(block.text)
    depth = numbered[1].count(".") if numbered else ranks[style]
    return min(6, first + depth)


def _heading_sizes(headings: Sequence[Block]) -> dict[str, float]:
    """The size of each heading. Heights of recognised lines vary with their letters: those that are near are one."""
    sizes = {b.id: sorted([line.size for line in b.lines] or [0.0])[len(b.lines) // 2] for b in headings}
    seen = {b.id for b in headings if b.lines and b.lines[0].source != "text-layer"}
    largest = 0.0
    for name in sorted(seen, key=lambda name: -sizes[name]):
        largest = largest if sizes[name] >= _ONE_SIZE * largest > 0 else sizes[name]
        sizes[name] = largest
    return sizes


def _style(block: Block, size: float) -> _Style:
    """Size in steps of 8 %, weight and capitals: what sets one kind of heading apart from another."""
    rounded = round(math.log(size, 1.08)) if size > 0 else 0
    return rounded, all(line.bold for line in block.lines), block.text.isupper()


def _style_ranks(headings: Sequence[tuple[Block, _Style]]) -> dict[_Style, int]:
    """Heading styles from the heaviest (0) down. Numbered headings anchor the style that they are set in."""
    styles = sorted({style for _, style in headings}, reverse=True)
    anchored: dict[_Style, int] = {}
    for block, style in headings:
        if numbered := _NUMBERED.match(block.text):
            depth = numbered[1].count(".")
            anchored[style] = min(depth, anchored.get(style, depth))
    ranks, rank = {}, 0
    for n, style in enumerate(styles):
        rank = anchored.get(style, min(n, rank + 1) if n else 0)
        ranks[style] = rank
    return ranks


# --- paragraphs that go on


def with_continuations(pages: Sequence[PageResult]) -> tuple[PageResult, ...]:
    """Text blocks that go on from the text block before them, over a column or page border, marked as such."""
    going_on: set[str] = set()
    last: Block | None = None
    for block in (b for page in pages for b in page.blocks if page.page.time is None):
        if block.label is Label.TEXT:
            if last is not None and _goes_on(last, block):
                going_on.add(block.id)
            last = block
        elif block.label in (Label.HEADING, Label.TITLE, Label.LIST_ITEM, Label.FORMULA):
            last = None
    return tuple(
        replace(page, blocks=tuple(replace(b, continues=True) if b.id in going_on else b for b in page.blocks))
        for page in pages
    )


def _goes_on(before: Block, after: Block) -> bool:
    """The first part ends within a sentence, the second starts with a small letter, at another place of the layout.

    It may start with a capital where the first part fills its last line.
    """
    end, start = before.text.rstrip()[-1:], after.text.lstrip()[:1]
    moved = after.page != before.page or after.box.t < before.box.b - 1 or after.box.l > before.box.r
    within = end.isalpha() or end in ",;-\u2010\u00ad"
    return moved and within and (start.islower() or (start.isalpha() and _is_full(before)))


def _is_full(block: Block) -> bool:
    """Whether the last of several lines reaches the right edge of the others."""
    return len(block.lines) > 1 and block.lines[-1].box.r > block.box.r - 0.02 * block.box.width
