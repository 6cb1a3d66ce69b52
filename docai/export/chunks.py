"""Chunks for retrieval, as JSON lines: a heading path, text of limited length, and where it stands.

A chunk never crosses a heading, or two pictures of a recording. Paragraphs are cut between sentences, code between
lines; tables between rows, with their header repeated.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from docai.export.flow import Piece, flat, unfolded
from docai.export.json import box_json, dumps
from docai.export.markdown import Markdown, fenced, table_markdown
from docai.export.options import ExportOptions
from docai.export.split_table import table_parts
from docai.types import Document, Label

_SENTENCE_END = re.compile(r"(?<=[.!?…])\s+|(?<=[。！？])")


def render(document: Document, options: ExportOptions) -> str:
    """One chunk a line."""
    return b"".join(
        dumps(chunk.json(document.source, n)) + b"\n" for n, chunk in enumerate(chunks(document, options), 1)
    ).decode()


@dataclass(slots=True)
class Chunk:
    """Pieces below one heading, as markdown."""

    headings: tuple[str, ...] = ()
    text: str = ""
    pieces: list[Piece] = field(default_factory=list)
    only_headings: bool = True

    def json(self, source: str, number: int) -> dict[str, Any]:
        """The chunk as plain values; pages count from 1."""
        blocks = list({p.id: (p, piece.page) for piece in self.pieces for p in flat(piece.parts)}.values())
        times = sorted({round(page.time, 3) for _, page in blocks if page.time is not None})
        return {
            "number": number,
            "source": source,
            "headings": list(self.headings),
            "text": self.text,
            "pages": sorted({block.page + 1 for block, _ in blocks}),
            **({"times": times} if times else {}),
            "blocks": [block.id for block, _ in blocks],
            "boxes": [{"page": b.page + 1, "unit": page.unit, "box": box_json(b.box)} for b, page in blocks],
        }


def _later(before: Piece, piece: Piece) -> bool:
    """Whether a piece is on the next picture of a recording."""
    return piece.page.time is not None and piece.page.index != before.page.index


def chunks(document: Document, options: ExportOptions) -> Iterator[Chunk]:
    """The document's chunks in reading order."""
    writer, path, chunk = Markdown(document, options), tuple[tuple[int, str], ...](), Chunk()
    for piece in writer.flow:
        if chunk.pieces and _later(chunk.pieces[-1], piece) and not chunk.only_headings:
            yield chunk
            chunk = Chunk(chunk.headings)
        is_heading = piece.label in (Label.TITLE, Label.HEADING)
        if is_heading:
            path = _below(path, piece)
            if not chunk.only_headings:
                yield chunk
                chunk = Chunk()
            chunk.headings = tuple(text for _, text in path)
        for text in _texts(piece, writer, options.max_chars):
            joint = _joint(chunk, piece)
            if not chunk.only_headings and len(chunk.text) + len(joint) + len(text) > options.max_chars:
                yield chunk
                chunk, joint = Chunk(chunk.headings), ""
            _add(chunk, piece, joint + text, is_heading)
    if chunk.text:
        yield chunk


def _below(path: tuple[tuple[int, str], ...], piece: Piece) -> tuple[tuple[int, str], ...]:
    """The heading path, as (level, text), with a further heading."""
    level = piece.block.level or (1 if piece.label is Label.TITLE else 2)
    return (*(above for above in path if above[0] < level), (level, " ".join(piece.text.split())))


def _add(chunk: Chunk, piece: Piece, text: str, is_heading: bool) -> None:
    chunk.text += text
    chunk.only_headings = chunk.only_headings and is_heading
    if not chunk.pieces or chunk.pieces[-1] is not piece:
        chunk.pieces.append(piece)


def _joint(chunk: Chunk, piece: Piece) -> str:
    """What goes between the chunk so far and a piece: one line end between the items of a list."""
    if not chunk.text:
        return ""
    last = chunk.pieces[-1]
    return (
        "\n" if last.label is piece.label is Label.LIST_ITEM else " " if last is piece and _is_prose(piece) else "\n\n"
    )


def _is_prose(piece: Piece) -> bool:
    return piece.block.table is None and piece.label is not Label.CODE


def _texts(piece: Piece, writer: Markdown, most: int) -> Iterator[str]:
    """A piece as markdown, in parts of limited length."""
    whole = "\n\n".join(part for part in writer.piece(piece) if part)
    if len(whole) <= most or piece.label in (Label.TITLE, Label.HEADING):
        yield from [whole] if whole else []
    elif piece.block.table is not None:
        for part in unfolded([piece]):
            if part is piece:
                yield from map(table_markdown, table_parts(piece.block.table, most))
            else:
                yield writer.body(part)
    elif piece.label is Label.CODE:
        yield from map(fenced, _packed(piece.block.text.splitlines(), most, "\n"))
    else:
        yield from _packed(_SENTENCE_END.split(whole), most, " ")


def _packed(parts: list[str], most: int, joint: str) -> Iterator[str]:
    """Parts joined again, as many as fit; one that is too long alone is cut at spaces."""
    text = ""
    for short in (short for part in parts for short in _cut(part, most)):
        if text and len(text) + len(joint) + len(short) > most:
            yield text
            text = ""
        text += (joint if text else "") + short
    if text:
        yield text


def _cut(part: str, most: int) -> Iterator[str]:
    while len(part) > most:
        space = part.rfind(" ", most // 2, most)
        end = space if space > 0 else most
        yield part[:end].rstrip()
        part = part[end:].lstrip()
    yield part
