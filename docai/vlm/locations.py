"""What models say about places in a picture: location tokens read as boxes, quadrilaterals, polygons and points.

Places are shares of the picture's width and height here, 0..1; `docai.tasks.ground` brings them onto the page. Models
stop anywhere, so what is incomplete is left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from docai.vlm.markers import BINS, Kind

Point = tuple[float, float]
Shape = Literal["box", "quad", "polygon", "point"]


@dataclass(frozen=True, slots=True)
class Located:
    """Something in a picture: its name, and where it is. A box has one ring of two corners, a point one of one point,
    and something that other things hide in part may have several polygons.
    """

    label: str
    shape: Shape
    rings: tuple[tuple[Point, ...], ...]


# --- Florence-2: <loc_N>, the middle of one of 1000 bins of an axis

_ENDS = re.compile(r"<s>|</s>|<pad>")
_BIN = re.compile(r"<loc_(\d+)>")
_QUAD = re.compile(r"(.+?)((?:<loc_\d+>){8})")
_NAMED = re.compile(r"([^<]+)((?:<loc_\d+>){4,})")
_BOXES = re.compile(r"((?:<loc_\d+>){4,})")
_NAMED_OUTLINES = re.compile(r"([^<]+)((?:<loc_\d+>|<sep>|<poly>|</poly>){4,})")
_OUTLINES = re.compile(r"((?:<loc_\d+>|<sep>|<poly>|</poly>){4,})")
_INSTANCE = re.compile(r"<poly>(.*?)</poly>")
_RING = re.compile(r"((?:<loc_\d+>)+)(?:<sep>|$)")
# Phrases of a caption that are no thing, from the model's own processor.
_PRONOUNS = """
it I me mine you your yours he him his she her hers they them their theirs one oneself we us our ours its myself
yourself himself herself itself ourselves yourselves themselves this that these those who whom whose which what all
another any anybody anyone anything each everybody everyone everything few many nobody none several some somebody
someone something image images the a an lots"""
_PAIRS = {"each other", "one another", "the image", "a group", "other objects", "a set"}
_NO_THINGS = frozenset(_PRONOUNS.split()) | _PAIRS


def florence(answer: str, kind: Kind) -> list[Located]:
    """What an answer of Florence-2 locates, in its order; nothing where its task is about text alone."""
    text = _ENDS.sub("", answer)
    match kind:
        case "text":
            return []
        case "quads":
            return [Located(said.strip(), "quad", (_ring(bins),)) for said, bins in _QUAD.findall(text)]
        case "proposals":
            return list(_boxes([("", bins) for bins in _BOXES.findall(text)]))
        case "phrases":
            phrases = ((said.strip(), bins) for said, bins in _NAMED.findall(text))
            return list(_boxes([(_ascii(said), bins) for said, bins in phrases if said not in _NO_THINGS]))
        case "polygons":
            return list(_polygons([("", part) for part in _OUTLINES.findall(text)]))
        case "open" if "<poly>" in text:
            return list(_polygons([(said.strip(), part) for said, part in _NAMED_OUTLINES.findall(text)]))
        case "boxes" | "open":
            return list(_boxes([(_ascii(said), bins) for said, bins in _NAMED.findall(text)]))


def words(answer: str) -> str:
    """What an answer says, without the places and the ends of it."""
    return " ".join(_BIN.sub("", _ENDS.sub("", answer)).split())


def _ascii(said: str) -> str:
    """A name as the model's own processor gives it."""
    return said.strip().encode("ascii", "ignore").decode("ascii")


def _bins(text: str) -> list[int]:
    return [min(int(number), BINS - 1) for number in _BIN.findall(text)]


def _ring(text: str) -> tuple[Point, ...]:
    """Bins in pairs, as points; a last one without its like is left out."""
    places = [(number + 0.5) / BINS for number in _bins(text)]
    return tuple(zip(places[::2], places[1::2], strict=False))


def _boxes(named: Sequence[tuple[str, str]]) -> Iterator[Located]:
    for label, text in named:
        bins = _bins(text)
        for at in range(0, len(bins) - 3, 4):
            yield Located(label, "box", (_corners(bins[at : at + 4]),))


def _corners(bins: Sequence[int]) -> tuple[Point, Point]:
    """The corners of a box, whichever of them comes first; one that lies within a bin is as wide as that."""
    (left, right), (top, bottom) = (sorted((bins[axis], bins[axis + 2])) for axis in (0, 1))
    x, y = (
        (low / BINS, (low + 1) / BINS) if low == high else ((low + 0.5) / BINS, (high + 0.5) / BINS)
        for low, high in ((left, right), (top, bottom))
    )
    return (x[0], y[0]), (x[1], y[1])


def _polygons(named: Sequence[tuple[str, str]]) -> Iterator[Located]:
    for label, text in named:
        instances = _INSTANCE.findall(text) if "<poly>" in text and "</poly>" in text else [text]
        for instance in instances:
            rings = tuple(ring for part in _RING.findall(instance) if len(ring := _ring(part)) >= 3)
            if rings:
                yield Located(label, "polygon", rings)


def florence_region(left: float, top: float, right: float, bottom: float) -> str:
    """A box in shares of a picture's sides, as a task about a region takes it."""
    numbers = (min(max(int(share * BINS), 0), BINS - 1) for share in (left, top, right, bottom))
    return "".join(f"<loc_{number}>" for number in numbers)


# --- LocateAnything: <ref>name</ref><box><x1><y1><x2><y2></box>, thousandths of an axis

THOUSAND = 1000
_PART = re.compile(r"<ref>(?P<ref>.*?)</ref>|<box>(?P<box>(?:\s*<\d{1,4}>)+)\s*</box>", re.DOTALL)
_NUMBER = re.compile(r"<(\d+)>")


def referred(answer: str, name: str = "") -> list[Located]:
    """What an answer of LocateAnything locates; `name` is that of boxes without one.

    A box that lies within no area or goes on where none should be is left out, and so are repetitions.
    """
    found: dict[Located, None] = {}
    for part in _PART.finditer(answer):
        if part["box"] is None:
            name = part["ref"].strip()
            continue
        numbers = [int(number) / THOUSAND for number in _NUMBER.findall(part["box"])]
        if max(numbers) <= 1 and (one := _referred(name, numbers)) is not None:
            found.setdefault(one)
    return list(found)


def _referred(name: str, numbers: Sequence[float]) -> Located | None:
    match numbers:
        case [x, y]:
            return Located(name, "point", (((x, y),),))
        case [left, top, right, bottom] if left < right and top < bottom:
            return Located(name, "box", (((left, top), (right, bottom)),))
    return None
