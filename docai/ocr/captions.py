"""Captions as children of the figures and tables that they are about."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from docai.geometry import x_overlap, y_overlap
from docai.layout.captions import caption_of
from docai.types import Block, Box, Label

_REACH = 3.0  # type sizes from a caption to what it is about
_PART = re.compile(r"^\(?[a-h]\)\s")  # "(a) One day (b) One year", between a figure and its caption
_FOLLOWS = {Label.FIGURE: True, Label.TABLE: False}  # where a caption stands that could stand on either side


@dataclass(frozen=True, slots=True)
class _Pair:
    """A caption and what it may be about, as places in a page's reading order.

    `fits`: the caption's words say figure or table, and it is one. `follows`: the caption comes after it. `parts`: a
    text between them that names the figure's parts.
    """

    caption: int
    owner: int
    label: Label
    fits: bool
    follows: bool
    distance: float
    parts: tuple[int, ...] = ()


def with_captions(blocks: Sequence[Block]) -> list[Block]:
    """The blocks of a page in reading order, with each caption that stands at a figure or table as its child."""
    children: dict[int, list[int]] = {}
    captions = [n for n, block in enumerate(blocks) if block.label is Label.CAPTION]
    pairs = (_pair(blocks, n, follows=follows) for n in captions for follows in (True, False))
    for pair in _matched([pair for pair in pairs if pair is not None]):
        children[pair.owner] = [*pair.parts, pair.caption]
    moved = {n for held in children.values() for n in held}
    return [
        replace(block, children=tuple(blocks[i] for i in children[n])) if n in children else block
        for n, block in enumerate(blocks)
        if n not in moved
    ]


def _matched(pairs: Sequence[_Pair]) -> Iterator[_Pair]:
    """The best pairs, each caption and each owner in one. Captions of one kind stand on one side all over a page."""
    sides = [(pair.label, pair.follows) for pair in pairs if pair.fits]
    usual = {
        label: follows if sides.count((label, follows)) >= sides.count((label, not follows)) else not follows
        for label, follows in _FOLLOWS.items()
    }
    taken: set[int] = set()
    for pair in sorted(pairs, key=lambda p: (not p.fits, p.follows is not usual[p.label], p.distance)):
        if pair.caption not in taken and pair.owner not in taken:
            taken |= {pair.caption, pair.owner}
            yield pair


def _pair(blocks: Sequence[Block], n: int, *, follows: bool) -> _Pair | None:
    """What the caption at `n` follows or precedes, with nothing but figures and other captions between."""
    step, edge, parts = -1 if follows else 1, blocks[n], tuple[int, ...]()
    if follows and n and _names_parts(blocks[n - 1]) and _near(blocks[n - 1], edge):
        edge, parts = blocks[n - 1], (n - 1,)
    first = n + step - len(parts)
    said = caption_of(blocks[n].text)
    for at in range(first, -1 if follows else len(blocks), step):
        owner = blocks[at]
        if owner.label is Label.FIGURE or (owner.label is Label.TABLE and at == first):
            fits = said is None or said is owner.label
            if _near(owner, edge) and (fits or follows is _FOLLOWS.get(said or owner.label)):
                return _Pair(n, at, owner.label, fits, follows, _distance(owner.box, edge.box), parts)
        if owner.label not in (Label.FIGURE, Label.CAPTION):
            return None
    return None


def _names_parts(block: Block) -> bool:
    return block.label in (Label.TEXT, Label.LIST_ITEM) and bool(_PART.match(f"{block.marker} {block.text}".strip()))


def _near(a: Block, b: Block) -> bool:
    """Whether blocks stand one below the other, or side by side, with little white between them."""
    sizes = [line.size or line.box.height for block in (a, b) for line in block.lines[:1]]
    size = max(sizes, default=min(a.box.height, b.box.height))  # of a model's answer the lines are not known
    in_line = x_overlap(a.box, b.box) > 0.3 or y_overlap(a.box, b.box) > 0.5
    return in_line and _distance(a.box, b.box) <= _REACH * size


def _distance(a: Box, b: Box) -> float:
    return max(a.l - b.r, b.l - a.r, a.t - b.b, b.t - a.b, 0.0)
