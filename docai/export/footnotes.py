"""Footnotes: which mark of the running text each belongs to."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from docai.export.flow import Piece, moved
from docai.types import Block, Label, Span

_MARK = re.compile(r"^\s*([\[(]?(?:\d{1,3}|[a-z])[\])]?[.)]?|[¹²³⁴-⁹⁰]{1,3}|[*†‡§¶‖#]{1,3})(?=\s|[^\W\d]|[\"“‘'(])\s*")
_RAISED = re.compile(r"(?<=[^\W\d_]|[.,;:!?)\]”\"])(?:[¹²³⁴-⁹⁰]+|[*†‡§¶‖]+)(?!\w)")
# What a mark stands behind: a word or the end of a sentence, not a single letter, whose raised number is an exponent
_BEFORE_MARK = re.compile(r"[^\W\d_]{2}$|[\u3040-\u30ff\u3400-\u9fff]$|[.,;:!?)\]”\"’»%]$")


@dataclass(frozen=True, slots=True)
class Reference:
    """Characters `start`..`end` of a piece's text that refer to the footnote named `name`."""

    start: int
    end: int
    name: str


@dataclass(frozen=True, slots=True)
class Note:
    """A footnote apart from its mark. `name` is unique in the document."""

    name: str
    text: str
    spans: tuple[Span, ...]


@dataclass(frozen=True, slots=True)
class Footnotes:
    """The footnotes whose marks were found, by block id, and the references to them, likewise."""

    notes: dict[str, Note]
    references: dict[str, list[Reference]]


def match_footnotes(flow: Sequence[Piece]) -> Footnotes:
    """Footnotes whose mark stands raised in a text of the same page."""
    raised = _by_mark(flow)
    notes: dict[str, Note] = {}
    references: dict[str, list[Reference]] = {}
    taken: set[str] = set()
    for block in (piece.block for piece in flow if piece.label is Label.FOOTNOTE):
        mark, text, spans = split_mark(block)
        places = raised.pop((mark, block.page), [])
        if places:
            name = _unique(mark, block.page, taken)
            notes[block.id] = Note(name, text, spans)
            for home, start, end in places:
                references.setdefault(home, []).append(Reference(start, end, name))
    return Footnotes(notes, references)


def _by_mark(flow: Sequence[Piece]) -> dict[tuple[str, int], list[tuple[str, int, int]]]:
    """(mark, page) -> places where it stands raised: (block id, start, end)."""
    found: dict[tuple[str, int], list[tuple[str, int, int]]] = {}
    for piece in flow:
        for start, end in _raised(piece):
            for page in {part.page for part in piece.parts}:
                place = (piece.block.id, start, end)
                found.setdefault((plain_mark(piece.text[start:end]), page), []).append(place)
    return found


def split_mark(block: Block) -> tuple[str, str, tuple[Span, ...]]:
    """A footnote's mark ("" where it has none), its text without it, and the spans of that text."""
    if block.marker:
        return plain_mark(block.marker), block.text, block.spans
    first = next((s for s in block.spans if s.style == "superscript" and not block.text[: s.start].strip()), None)
    found = _MARK.match(block.text)
    end = first.end if first else found.end() if found else 0
    end += len(block.text[end:]) - len(block.text[end:].lstrip())
    return plain_mark(block.text[:end]), block.text[end:], tuple(moved(block.spans, -end))


def plain_mark(mark: str) -> str:
    """A mark without brackets, dots and raising: `¹`, `(1)` and `1.` are all `1`."""
    return unicodedata.normalize("NFKC", mark).strip().strip("[]().,")


def _raised(piece: Piece) -> list[tuple[int, int]]:
    """Where a text has raised characters: by style, or superscript digits and footnote signs behind a word."""
    if piece.label is Label.FOOTNOTE:
        return []
    by_style = [
        (span.start, span.end)
        for span in piece.spans
        if span.style == "superscript" and _BEFORE_MARK.search(piece.text[: span.start][-2:])
    ]
    by_sign = [found.span() for found in _RAISED.finditer(piece.text)]
    return by_style + [(a, b) for a, b in by_sign if not any(a < d and c < b for c, d in by_style)]


def _unique(mark: str, page: int, taken: set[str]) -> str:
    """Footnote names may hold no space or bracket, and marks come back on later pages."""
    base = re.sub(r"[^\w-]", lambda m: f"note{ord(m[0]):x}", mark)
    name = base if base not in taken else f"{base}-p{page + 1}"
    while name in taken:
        name += "x"
    taken.add(name)
    return name
