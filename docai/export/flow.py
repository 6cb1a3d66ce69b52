"""A document as the sequence of pieces that a reader follows: no furniture, broken paragraphs made whole."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from docai.export.options import ExportOptions
from docai.types import Block, Document, Label, Page, Span
from docai.writing import glue


@dataclass(frozen=True, slots=True)
class Piece:
    """A block, with the blocks that go on from it on the next column or page already joined to its text."""

    block: Block
    page: Page
    text: str
    spans: tuple[Span, ...]
    parts: tuple[Block, ...]  # `block` and those that go on from it

    @property
    def label(self) -> Label:
        return self.block.label


def pieces(document: Document, options: ExportOptions) -> list[Piece]:
    """What the document says, in reading order."""
    flow: list[Piece] = []
    last_text: int | None = None
    for result in document.pages:
        for block in result.blocks:
            if block.furniture and options.furniture == "drop":
                continue
            if block.continues and last_text is not None:
                flow[last_text] = _joined(flow[last_text], block)
                continue
            if block.label is Label.TEXT:
                last_text = len(flow)
            flow.append(Piece(block, result.page, block.text, block.spans, (block,)))
    return flow


def _joined(piece: Piece, block: Block) -> Piece:
    drop, between = glue(piece.text, block.text)
    kept = piece.text[: len(piece.text) - drop]
    offset = len(kept) + len(between)
    spans = (*_cut(piece.spans, len(kept)), *moved(block.spans, offset))
    return replace(piece, text=kept + between + block.text, spans=spans, parts=(*piece.parts, block))


def _cut(spans: Iterable[Span], end: int) -> list[Span]:
    return [replace(span, end=min(span.end, end)) for span in spans if span.start < end]


def moved(spans: Iterable[Span], by: int) -> list[Span]:
    """Spans of a text that now starts `by` characters later (or, where negative, has lost its start)."""
    shifted = (replace(span, start=max(0, span.start + by), end=span.end + by) for span in spans)
    return [span for span in shifted if span.end > span.start]


def children_around(block: Block) -> tuple[list[Block], list[Block]]:
    """A block's captions and the like: those that are read before it, and the others."""
    before = [child for child in block.children if _is_before(child, block)]
    return before, [child for child in block.children if child not in before]


def _is_before(child: Block, block: Block) -> bool:
    """By reading order; where no detector told one, those above come first."""
    if child.region.order is not None and block.region.order is not None:
        return child.region.order < block.region.order
    return child.box.cy < block.box.cy and child.box.b <= block.box.cy


def flat(blocks: Iterable[Block]) -> Iterator[Block]:
    """Blocks with their captions as blocks of their own, in reading order."""
    for block in blocks:
        before, after = children_around(block)
        yield from flat(before)
        yield block
        yield from flat(after)


def unfolded(flow: Iterable[Piece]) -> Iterator[Piece]:
    """Pieces with their captions as pieces of their own, in reading order."""
    for piece in flow:
        for block in flat([piece.block]):
            own = block is piece.block
            yield piece if own else Piece(block, piece.page, block.text, block.spans, (block,))
