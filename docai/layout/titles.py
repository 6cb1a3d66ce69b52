"""The title of a document among the headings of its first page, and who wrote it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from docai.layout.blocks import LineBlock
from docai.layout.body import Body
from docai.types import Label, Page, Region

_LARGER = 1.3  # times the body size
_NAMES = re.compile(r",|&|\b(?:and|und|et|y|e)\b")  # between the names of authors, and parts of addresses


@dataclass(frozen=True, slots=True)
class Found:
    """A region with the block of text that it was made of, if it was."""

    region: Region
    block: LineBlock | None = None

    @property
    def is_heading(self) -> bool:
        return self.region.label is Label.HEADING


def with_title(found: Sequence[Found], page: Page, body: Body) -> list[Region]:
    """The regions; on a first page the largest heading of the upper half is the title, where it is large enough.

    What follows it in smaller and lighter type, before any text, and lists names, is no heading.
    """
    regions = [item.region for item in found]
    top = [n for n, item in enumerate(found) if item.is_heading and item.region.box.t < page.height / 2]
    place = max(top, key=lambda n: (_size(found[n]), -n), default=None) if page.index == 0 else None
    if place is None or _size(found[place]) <= _LARGER * body.size:
        return regions
    regions[place] = replace(regions[place], label=Label.TITLE)
    for n in range(place + 1, len(found)):
        if not _names(found[n], found[place]):
            break
        regions[n] = replace(regions[n], label=Label.TEXT)
    return regions


def _size(item: Found) -> float:
    return item.block.size if item.block else 0.0


def _names(item: Found, title: Found) -> bool:
    """Whether a heading right below the title gives names rather than a section's."""
    block = item.block
    if block is None or not item.is_heading or block.size >= 0.9 * _size(title):
        return False
    lighter = title.block is not None and title.block.bold and not block.bold
    return bool(_NAMES.search(block.text)) and (lighter or len(block.lines) > 1 or "," in block.text)
