"""List items in markdown: marks, nesting, numbers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from docai.export.inline import escape

_ORDERED = re.compile(r"^(\d{1,9})[.)]$")
_BULLETS = frozenset("-*+•◦▪▫●○■□‣⁃∙·–—➢➤✓✔−")


@dataclass(frozen=True, slots=True)
class Item:
    """A list item: its mark as printed, its depth, its text as markdown."""

    marker: str
    level: int
    text: str


@dataclass(slots=True)
class _Depth:
    level: int
    indent: int  # where the item's mark stands
    inner: int  # where its text stands
    number: int | None = None  # of the last item


def nested(items: Iterable[Item]) -> Iterator[str]:
    """Consecutive items as lines of a list. Marks that markdown has no list for, as (a), stay in the text."""
    stack: list[_Depth] = []
    for item in items:
        while stack and stack[-1].level > item.level:
            stack.pop()
        if not stack or stack[-1].level < item.level:
            indent = stack[-1].inner if stack else 0
            stack.append(_Depth(item.level, indent, indent))
        depth = stack[-1]
        mark, text, depth.number = _marked(item, depth.number)
        depth.inner = depth.indent + len(mark) + 1
        yield " " * depth.indent + f"{mark} {text}".replace("\n", "\n" + " " * depth.inner).rstrip()


def _marked(item: Item, last: int | None) -> tuple[str, str, int | None]:
    """(markdown's mark, text, number). A number that does not count up stays in the text: viewers would recount it."""
    marker = item.marker.strip()
    if found := _ORDERED.match(marker):
        number = int(found[1])
        if last is None or number == last + 1:
            return marker, item.text, number
    if not marker or marker in _BULLETS:
        return "-", item.text, None
    return "-", f"{escape(marker)} {item.text}", None
