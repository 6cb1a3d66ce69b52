"""Which of the overlapping regions of a detector stay: the steps that pipelines take behind one, each an option."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from docai.geometry import inside, iou
from docai.layout.detector import plain_name
from docai.types import Box, Label, Region

_PICTORIAL = frozenset({Label.FIGURE, Label.TABLE})
_INLINE = 0.5  # share of a formula that lies in running text, from which on it is part of it


@dataclass(frozen=True, slots=True)
class Suppression:
    """The steps, in the order in which they are taken. None and nothing leave a step out.

    `same`, `other`: intersection over union from which on only the higher score stays, for regions of one name and of
    two. `covering`: shares of the page, lying and standing, from which on a figure beside other regions is the page.
    `holders`: names of regions that stand for all in which `held` of their area lies. `nested`: share from which on
    what lies in another region is left out, but for figures and tables.
    """

    same: float | None = None
    other: float | None = None
    covering: tuple[float, float] | None = None
    holders: frozenset[str] = frozenset()
    held: float = 0.9
    nested: float | None = None

    def __call__(self, regions: Sequence[Region], page: Box, pixel: float = 1.0) -> list[Region]:
        """The regions that stay, in the order in which they came. `pixel`: the side of one, in the page's unit."""
        kept = _apart(regions, self.same, self.other, pixel)
        kept = _beside_page(kept, page, self.covering)
        kept = _held_by(kept, lambda region: plain_name(region.name) in self.holders, self.held)
        return kept if self.nested is None else _not_nested(kept, self.nested)


# PaddleX behind PP-DocLayoutV3, as PaddleOCR-VL sets it.
PADDLE = Suppression(
    0.6,
    0.98,
    (0.82, 0.93),
    frozenset({"chart", "displayformula", "formula", "doctitle", "inlineformula", "paragraphtitle"}),
)
# Nothing stands behind RT-DETR in transformers; but a query may come under two labels, which is one region.
DOUBLES = Suppression(0.6, 0.98)


def _apart(regions: Sequence[Region], same: float | None, other: float | None, pixel: float) -> list[Region]:
    """Greedy suppression from the highest score down (Dalal and Triggs 2005), by name."""
    chosen: list[int] = []
    for at in sorted(range(len(regions)), key=lambda i: -(regions[i].score or 0.0)):
        region = regions[at]
        limits = ((same if regions[i].name == region.name else other, regions[i]) for i in chosen)
        if not any(limit is not None and shared(region.box, rival.box, pixel) > limit for limit, rival in limits):
            chosen.append(at)
    return [regions[at] for at in sorted(chosen)]


def shared(a: Box, b: Box, pixel: float = 0.0) -> float:
    """Intersection over union. `pixel`: what is added to each side, as where boxes count whole pixels."""
    return iou(*(Box(box.l, box.t, box.r + pixel, box.b + pixel) for box in (a, b)))


def _beside_page(regions: list[Region], page: Box, covering: tuple[float, float] | None) -> list[Region]:
    """Without a figure that is the page itself. Where nothing else was found it stays."""
    if covering is None or len(regions) < 2:
        return regions
    limit = covering[0] if page.width > page.height else covering[1]
    return [r for r in regions if r.label is not Label.FIGURE or r.box.area <= limit * page.area] or regions


def _held_by(regions: list[Region], holds: Callable[[Region], bool], share: float) -> list[Region]:
    """Without the regions that lie in one that stands for all in it. Formulas in text stay apart from it."""

    def stands_for(holder: Region, region: Region) -> bool:
        formula = region.label is Label.FORMULA and holder.label is not Label.FORMULA
        return holder is not region and not formula and inside(region.box, holder.box) >= share

    holders = [region for region in regions if holds(region)]
    return [
        region
        for region in regions
        if not any(stands_for(h, region) and not (holds(region) and _first(region, h)) for h in holders)
    ]


def _first(one: Region, other: Region) -> bool:
    """Of two that stand for each other, whether the first does: the larger one, then the likelier."""
    return (one.box.area, one.score or 0.0) > (other.box.area, other.score or 0.0)


def _not_nested(regions: list[Region], share: float) -> list[Region]:
    """Without what lies in a larger region; figures and tables are parts of pages of their own."""

    def nests(region: Region, other: Region) -> bool:
        return other is not region and inside(region.box, other.box) > share and _first(other, region)

    return [r for r in regions if r.label in _PICTORIAL or not any(nests(r, other) for other in regions)]


def flowing(regions: Sequence[Region]) -> list[Region]:
    """Regions to put text into: without formulas within running text, which would be cut out of it."""
    texts = [r.box for r in regions if r.label not in (Label.FORMULA, Label.FIGURE, Label.TABLE)]
    return [
        r
        for r in regions
        if r.label is not Label.FORMULA
        or not any(box.area > r.box.area and inside(r.box, box) > _INLINE for box in texts)
    ]
