"""A block's text cut where its style or link changes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from docai.types import Span, Style

_SCHEMES = ("http://", "https://", "mailto:", "ftp://", "tel:")


@dataclass(frozen=True, slots=True)
class Run:
    """Characters of one style and one link, starting at `start` of the block's text."""

    start: int
    text: str
    styles: frozenset[Style] = frozenset()
    link: str | None = None

    @property
    def end(self) -> int:
        return self.start + len(self.text)


def runs(text: str, spans: Sequence[Span], cuts: Iterable[int] = ()) -> list[Run]:
    """The runs of a text in order, with further cuts where asked for; overlapping spans add up."""
    marks = [span for span in spans if span.start < span.end]
    edges = {0, len(text), *cuts, *(edge for span in marks for edge in (span.start, span.end))}
    points = sorted(edge for edge in edges if 0 <= edge <= len(text))
    coming, over = sorted(marks, key=lambda span: -span.start), list[Span]()
    found: list[Run] = []
    for start, end in pairwise(points):
        over = [span for span in over if span.end > start]
        while coming and coming[-1].start <= start:
            over.append(coming.pop())
        found.append(Run(start, text[start:end], *_look(over)) if over else Run(start, text[start:end]))
    return found


def _look(spans: Sequence[Span]) -> tuple[frozenset[Style], str | None]:
    """The styles of spans over the same characters, and the first link of theirs."""
    styles = frozenset(span.style for span in spans if span.style)
    return styles, next((span.link for span in spans if span.link), None)


def web_link(target: str) -> str | None:
    """A link target that is safe to follow from an output; None for scripts, files and places in the document."""
    bare = "".join(c for c in target.strip() if c.isprintable())
    return bare if bare.casefold().startswith(_SCHEMES) else None


def page_link(target: str) -> int | None:
    """The page number (from 1) that a link within the document leads to."""
    number = target.removeprefix("#page=")
    return int(number) if target.startswith("#page=") and number.isascii() and number.isdigit() else None
