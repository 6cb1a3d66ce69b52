"""What each block of a column is: heading, list item, caption, footnote, code or plain text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import takewhile

from docai.layout.blocks import BULLET, CAPTION, LineBlock, starts_item
from docai.layout.body import Body
from docai.layout.headings import is_heading
from docai.types import Box, Label, Page, Rule
from docai.writing import page_number

_EDGE = 0.075  # of the page height: where page numbers stand
_LONGEST_CAPTION = 900  # characters
_SMALLER = 0.93  # times the body size: footnotes
_SMALLER_SEEN = 0.88  # the same for recognised text, whose sizes vary
_SMALLER_BELOW_RULE = 0.97  # below a rule they need not be much smaller,
_AS_SEEN = 1.02  # and recognised ones may look no smaller at all
_MARK = re.compile(r"^(?:[(\[]?\d{1,3}[)\].]?|[*†‡§¶‖#※]{1,3}|[¹²³⁴-⁹]{1,3}|[a-z][)\s])\s*\S")
_COUNTED = re.compile(r"^(\d{1,2})[.)]\s")
_FEWEST_COUNTED = 3
_FOOT = 0.5  # of the page height: footnotes stand below


def label_column(
    blocks: Sequence[LineBlock], body: Body, page: Page, rules: Sequence[Rule], apart: Sequence[bool] | None = None
) -> list[Label]:
    """A label for each block of a run that stands in one column. `apart`: see `set_apart`."""
    apart = set_apart(blocks) if apart is None else apart
    labels = [_label(block, body, page, apart=alone) for block, alone in zip(blocks, apart, strict=True)]
    _lone_items(blocks, labels)
    _numbered_runs(blocks, labels)
    for n in _footnotes(blocks, labels, body, page, rules):
        labels[n] = Label.FOOTNOTE
    return labels


def set_apart(blocks: Sequence[LineBlock]) -> list[bool]:
    """Which blocks of a column have more white above them than a line has, and do not fill the column."""
    width = max((b.box.r for b in blocks), default=0) - min((b.box.l for b in blocks), default=0)
    found = []
    for n, block in enumerate(blocks):
        gap = block.box.t - blocks[n - 1].box.b if n else block.size
        loose = block.lines[0].source != "text-layer"  # boxes of recognised lines are taller than their type
        found.append(
            gap > (0.35 if loose else 0.6) * block.size and (block.box.width < 0.8 * width or n == len(blocks) - 1)
        )
    return found


def _label(block: LineBlock, body: Body, page: Page, *, apart: bool) -> Label:
    if _at_edge(block.box, page) and page_number(block.text) is not None:
        return Label.PAGE_NUMBER
    if CAPTION.match(block.text) and len(block.text) < _LONGEST_CAPTION:
        return Label.CAPTION
    if block.mono and not body.mono and (len(block.lines) > 1 or any(c in block.text for c in "(){};=")):
        return Label.CODE
    if BULLET.match(block.text):
        return Label.LIST_ITEM
    if is_heading(block, body, apart=apart):
        return Label.HEADING
    return Label.LIST_ITEM if starts_item(block.text) else Label.TEXT


def _at_edge(box: Box, page: Page) -> bool:
    at_edge = box.b < _EDGE * page.height or box.t > (1 - _EDGE) * page.height
    return at_edge and not (page.unit == "px" and page.height < 400)


def _lone_items(blocks: Sequence[LineBlock], labels: list[Label]) -> None:
    """A numbered sentence without fellows, as "2003). In", is text: lists have two items at least, or a bullet."""
    for n, label in enumerate(labels):
        if label is Label.LIST_ITEM and not BULLET.match(blocks[n].text):
            near = labels[max(0, n - 3) : n] + labels[n + 1 : n + 4]
            if Label.LIST_ITEM not in near and not blocks[n].text.lstrip("([").startswith(
                ("1", "a", "i", "①", "A", "I")
            ):
                labels[n] = Label.TEXT


def _numbered_runs(blocks: Sequence[LineBlock], labels: list[Label]) -> None:
    """Headings that only count, "1.", "2.", "3.", with nothing between them, are the items of a list in large type."""
    begun, last = 0, None  # where the run begins, and the number that it has come to
    for n in range(len(blocks) + 1):
        found = _COUNTED.match(blocks[n].text) if n < len(blocks) and labels[n] is Label.HEADING else None
        number = int(found[1]) if found else None
        if last is None or number != last + 1:
            if last is not None and n - begun >= _FEWEST_COUNTED:
                labels[begun:n] = [Label.LIST_ITEM] * (n - begun)
            begun = n
        last = number


def _footnotes(
    blocks: Sequence[LineBlock], labels: Sequence[Label], body: Body, page: Page, rules: Sequence[Rule]
) -> list[int]:
    """Positions of footnotes: small type at the end of a column, with marks, or below a short rule."""
    run: list[int] = []
    for n in range(len(blocks) - 1, -1, -1):
        block = blocks[n]
        small = (
            block.size < (_AS_SEEN if body.recognised else _SMALLER_BELOW_RULE) * body.size
            and block.box.t > _FOOT * page.height
        )
        if not small or labels[n] not in (Label.TEXT, Label.LIST_ITEM):
            break
        run.append(n)
        if _below_rule(block, rules) and (_marked(block) or not body.recognised):
            return run
    least = (_SMALLER_SEEN if body.recognised else _SMALLER) * body.size
    run = list(takewhile(lambda n: blocks[n].size < least, run))
    while run and not _marked(blocks[run[-1]]):
        run.pop()
    return run


def _marked(block: LineBlock) -> bool:
    first = block.lines[0].words[0] if block.lines[0].words else None
    return bool(_MARK.match(block.text)) or (first is not None and "superscript" in first.styles)


def _below_rule(block: LineBlock, rules: Sequence[Rule]) -> bool:
    """Whether a rule stands right above a block, and begins where it does."""
    box, size = block.box, block.size
    return any(
        rule.horizontal
        and box.t - 2.5 * size < rule.box.cy <= box.t + 0.2 * size
        and rule.box.l < box.l + 2 * size
        and rule.box.r > box.l + 2 * size
        for rule in rules
    )
