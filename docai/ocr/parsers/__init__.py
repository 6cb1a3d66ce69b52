"""What models write, as the parts of a document: one parser a way of writing, found by name.

Models write markdown with tables in HTML or LaTeX, and each in its own slips: tags that nothing closes where an answer
was cut, fences around everything. A parser gives what can be made of it and never fails.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module

from docai.types import Box, Label, Span, Table


@dataclass(frozen=True, slots=True)
class Element:
    """A part of an answer: what it is, and what it says. The fields are those of `Block`."""

    label: Label
    text: str = ""
    spans: tuple[Span, ...] = ()
    table: Table | None = None
    level: int | None = None
    marker: str = ""


Parser = Callable[[str, Box], list[Element]]  # (an answer, the box of what was asked about) -> its parts in order

PARSERS = {
    "markdown": "docai.ocr.parsers.markdown:parse",
    "mathpix": "docai.ocr.parsers.mathpix:parse",
    "plain": "docai.ocr.parsers.plain:parse",
}


def get_parser(name: str) -> Parser:
    """The parser of that name; names come from our own tables."""
    module, _, function = PARSERS[name].partition(":")
    parser: Parser = getattr(import_module(module), function)
    return parser
