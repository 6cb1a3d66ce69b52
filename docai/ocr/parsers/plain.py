"""Answers that are nothing but text: paragraphs with empty lines between them."""

from __future__ import annotations

import re

from docai.ocr.parsers import Element
from docai.types import Box, Label
from docai.writing import glue

_APART = re.compile(r"\n[ \t]*\n\s*")


def parse(answer: str, _: Box) -> list[Element]:
    """A part for each paragraph, its lines joined."""
    return [Element(Label.TEXT, joined(part)) for part in _APART.split(answer.strip()) if part.strip()]


def joined(text: str) -> str:
    """Lines as running text: hyphens that split words go, and nothing comes between Chinese characters."""
    lines = [line.strip() for line in text.split("\n")]
    out = ""
    for line in filter(None, lines):
        drop, between = glue(out, line)
        out = out[: len(out) - drop] + between + line
    return out
